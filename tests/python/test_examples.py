"""What the README tells people to type: the example configurations and applications, and `make run`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from mongrel2 import Mongrel2, Mongrel2Error, load
from support.process import COMMAND, Lurcher, marked
from support.rawhttp import Client, ask, get
from support.stage import Stage
from support.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIGS = sorted((ROOT / "proxy-configs" / "mongrel2").glob("*.conf"))


@pytest.mark.parametrize("config", CONFIGS, ids=[path.name for path in CONFIGS])
def test_m2sh_loads_every_configuration(tmp_path: Path, config: Path) -> None:
    load(config, tmp_path / "config.sqlite")


def test_a_wrong_configuration_is_noticed(tmp_path: Path) -> None:
    """m2sh itself ends with exit code 0."""
    (tmp_path / "wrong.conf").write_text("x = Handler(\n")
    with pytest.raises(Mongrel2Error, match="missing a"):
        load(tmp_path / "wrong.conf", tmp_path / "config.sqlite")


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    """What a test that fails leaves running is ended."""
    yield
    for example in Example.all:
        for pid in marked(example.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        example.process.wait(10)
    Example.all.clear()


class Example:
    """A script of `scripts` as a process, in a group of its own."""

    all: ClassVar[list[Example]] = []

    def __init__(
        self, directory: Path, *options: str, script: str = "run_example.py", run_dir: bool = True
    ) -> None:
        self.output = directory / "output"
        self.mark = str(directory)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, str(ROOT / "scripts" / script)),
                    *(("--run-dir", str(directory / "run")) if run_dir else ()),
                    *("--lurcher", str(COMMAND), *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PROBE_MARK": self.mark},
                start_new_session=True,
            )
        self.all.append(self)

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_for_url(self) -> int:
        """The port it serves, once it says so."""

        def look() -> re.Match[str] | None:
            assert self.process.poll() is None, self.said()
            return re.search(r"served at http://127\.0\.0\.1:(\d+)/", self.said())

        found = wait_for("the URL", look, 30)
        assert found
        return int(found[1])

    def assert_ended(self, code: int) -> None:
        assert self.process.wait(20) == code, self.said()
        wait_for("nothing to be left", lambda: not marked(self.mark), 5)


@pytest.mark.parametrize("config", CONFIGS, ids=[path.name for path in CONFIGS])
def test_it_answers_once_and_ends(tmp_path: Path, config: Path) -> None:
    example = Example(tmp_path, "--once", "--config", str(config))
    example.assert_ended(0)
    assert "HTTP/1.1 200 OK" in example.said()
    assert "Hello from worker" in example.said()
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_stays_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    example = Example(tmp_path)
    port = example.wait_for_url()
    assert get(port, "/again").body.startswith(b"Hello from worker")
    os.kill(example.process.pid, number)
    example.assert_ended(0)


def test_two_side_by_side_take_different_ports(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = Example(tmp_path / "a")
    first = one.wait_for_url()
    two = Example(tmp_path / "b")
    second = two.wait_for_url()
    assert first != second
    # The first may have had to give way too, if another example runs on this machine.
    assert second == 6767 or re.search(rf"port \d+ is taken, using {second} instead", two.said())
    for example in (one, two):
        os.killpg(example.process.pid, signal.SIGINT)
        example.assert_ended(0)


def served(directory: Path, *options: str) -> Example:
    """What `make run` does."""
    return Example(directory, *options, script="run_serve.py", run_dir=False)


def test_make_run_answers_once_and_ends(tmp_path: Path) -> None:
    example = served(tmp_path, "--once")
    example.assert_ended(0)
    assert "HTTP/1.1 200 OK" in example.said()
    assert "Hello from worker" in example.said()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_make_run_stays_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    """A second one beside it takes another port."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = served(tmp_path / "a")
    ports = {one.wait_for_url()}
    two = served(tmp_path / "b")
    ports.add(two.wait_for_url())
    assert len(ports) == 2
    for port in ports:
        assert get(port, "/again").body.startswith(b"Hello from worker")
    for example in (one, two):
        os.killpg(example.process.pid, number)
        example.assert_ended(0)


def test_make_run_tells_why_an_application_does_not_load(tmp_path: Path) -> None:
    example = served(tmp_path, "--wsgi-app", "no_such_module:application")
    example.assert_ended(1)
    assert "no_such_module" in example.said()
    assert "lurcher ended with exit code 4" in example.said()


def test_an_application_that_does_not_load_is_told(tmp_path: Path) -> None:
    example = Example(tmp_path, "--wsgi-app", "no_such_module:application")
    example.assert_ended(1)
    assert "no_such_module" in example.said()
    assert "lurcher ended with exit code 4" in example.said()


def test_a_taken_port_is_noticed(tmp_path: Path) -> None:
    """The harness finds out when someone is quicker."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = CONFIGS[0].read_text().replace("6768", str(port))
        mongrel2 = Mongrel2(tmp_path, text)
        with pytest.raises(Mongrel2Error, match="is taken"):
            mongrel2.start()


def example_application(stage: Stage, name: str) -> int:
    front = stage.mongrel2()
    words = ["--wsgi-app", f"{name}:application", "--app-path", str(ROOT / "examples")]
    lurcher = Lurcher(stage.directory, [*front.options, *words])
    stage.lurchers.append(lurcher)
    return front.port


def test_hello(stage: Stage) -> None:
    response = get(example_application(stage, "hello"), "/caf%C3%A9")
    assert re.fullmatch(rb"Hello from worker \d+, you asked for /caf\xc3\xa9\n", response.body)


def test_clock(stage: Stage) -> None:
    with Client(example_application(stage, "clock")) as client:
        client.send_request("GET", "/?ticks=2")
        client.head()
        lines = client.chunks()
    assert len(lines) == 2
    assert lines[1].startswith(b"2 of 2: ")


def test_guestbook(stage: Stage) -> None:
    port = example_application(stage, "guestbook")
    assert b"Please sign." in get(port, "/").body
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    signed = ask(port, "POST", "/", form, b"name=Zo%C3%AB+%3CB%3E")
    assert "Welcome, Zoë &lt;B&gt;!".encode() in signed.body
    cookie = signed.header("Set-Cookie")
    assert cookie
    again = get(port, "/", [("Cookie", cookie.split(";")[0])])
    assert b"Welcome back, " in again.body


def test_the_events_example_outlives_the_idle_sweep(stage: Stage) -> None:
    """Mongrel2 drops connections that give no sign of life for two seconds here; Lurcher gives it for them."""
    swept = {
        "limits.min_ping": 2,
        "limits.tick_timer": 1,
        "limits.min_read_rate": 1_000_000,
        "limits.min_write_rate": 1_000_000,
    }
    front = stage.mongrel2(settings=swept)
    words = ("--wsgi-app", "events:application", "--app-path", str(ROOT / "examples"))
    # A stream without end is cut off at the stop, unless its client is known to have left by then.
    limits = ("--keepalive-interval", "500ms", "--graceful-timeout", "1s")
    stage.lurcher(*front.options, *limits, *words, app=None)
    with Client(front.port, 30) as client:
        client.send_request("GET", "/")
        assert client.head()[1] == 200
        for number in range(1, 8):
            assert client.chunk().startswith(b"id: %d\ndata: " % number)
