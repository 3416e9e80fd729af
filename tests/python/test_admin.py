"""The control socket, and the commands that talk to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
from pathlib import Path
from typing import Any

from support.process import Lurcher
from support.rawhttp import Client, get
from support.site import Site, version
from support.stage import Stage
from support.waiting import wait_for


def place(stage: Stage, lurcher: Lurcher) -> Path:
    return stage.directory / "lurcher" / f"{lurcher.pid}.sock"


def status(stage: Stage, *words: str) -> dict[str, Any]:
    done = stage.command("status", "--json", *words)
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def pid_of(lurcher: Lurcher) -> tuple[str, str]:
    """The words that choose it: other instances may run on this machine."""
    return "--pid", str(lurcher.pid)


def ask(path: Path, line: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(line)
        with client.makefile("rb") as answers:
            answer: dict[str, Any] = json.loads(answers.readline())
            return answer


def test_status_shows_what_is_going_on(stage: Stage) -> None:
    front = stage.mongrel2()
    words = ["--workers", "2", "--threads", "3", "--graceful-timeout", "100ms"]
    lurcher = stage.lurcher(*front.options, *words)
    workers = lurcher.wait_for_workers(2)
    assert get(front.port, "/number/1").body == b"1"
    assert get(front.port, "/status?code=404").status == 404
    assert get(front.port, "/raise").status == 500

    def busy() -> dict[str, Any]:
        shown = status(stage, *pid_of(lurcher))
        ready = [w["state"] for w in shown["workers"]] == ["ready", "ready"]
        return shown if ready and sum(w["busy"] for w in shown["workers"]) else {}

    with Client(front.port) as client:
        # Longer than the test: both looks find it at work.
        client.send_request("GET", "/number/7?ms=60000")
        shown = wait_for("a busy slot", busy)
        text = stage.command("status", *pid_of(lurcher)).stdout
    assert (shown["pid"], shown["state"]) == (lurcher.pid, "running")
    assert {w["pid"] for w in shown["workers"]} == set(workers)
    assert all(w["rss"] > 1_000_000 and w["slots"] == 3 for w in shown["workers"])
    (current,) = [c for w in shown["workers"] for c in w["requests_at_work"]]
    assert (current["method"], current["target"]) == ("GET", "/number/7?ms=60000")
    assert 0 <= current["age"] < 60
    (link,) = shown["links"]
    assert link["connected"]
    assert link["subscribed"]
    totals = shown["totals"]
    assert totals["requests"] == 4
    assert {k: v for k, v in totals["answered"].items() if v} == {"2xx": 1, "4xx": 1, "5xx": 1}
    assert {k: v for k, v in totals["outcomes"].items() if v} == {"ok": 2, "application_error": 1}
    assert totals["bytes_in"] > 500
    assert totals["bytes_out"] > 200
    assert shown["times"]["request"]["count"] == 3
    assert 0 < shown["times"]["request"]["p50"] <= shown["times"]["request"]["max"] < 60
    for said in ("GET /number/7?ms=60000", "up", "0 of 1024 wait", "2 of 2 ready", "5xx 1"):
        assert said in text, text


def test_the_socket_is_private_and_goes_with_its_instance(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options)
    lurcher.wait_for_workers(1)
    path = place(stage, lurcher)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    done = stage.command("stop", *pid_of(lurcher))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "stopping; requests have 30 s\nended\n"
    assert lurcher.wait_exit(5) == 0
    assert not path.exists()
    done = stage.command("status", "--pid", str(lurcher.pid))
    assert (done.returncode, done.stdout) == (3, "")
    assert f"no instance with pid {lurcher.pid}" in done.stderr


def test_a_socket_left_behind_is_replaced_and_a_living_one_is_not(stage: Stage) -> None:
    front = stage.mongrel2()
    path = stage.directory / "c.sock"
    first = stage.lurcher(*front.options, "--control", str(path))
    first.wait_for_workers(1)
    wait_for("the socket", path.exists)
    second = stage.lurcher(*front.options, "--control", str(path))
    assert second.wait_exit() == 1
    assert f"{path} belongs to a living instance" in second.err()
    first.send_signal(signal.SIGKILL)
    first.process.wait()
    assert path.exists()
    done = stage.command("status", "--control", str(path))
    assert done.returncode == 3
    third = stage.lurcher(*front.options, "--control", str(path))
    third.wait_for_err("is ready")
    assert status(stage, "--control", str(path))["pid"] == third.pid


def test_of_several_instances_one_is_chosen(stage: Stage) -> None:
    front = stage.mongrel2()
    both = [stage.lurcher(*front.options) for _ in range(2)]
    for lurcher in both:
        lurcher.wait_for_err("receiving requests")
    for lurcher in both:
        assert status(stage, "--pid", str(lurcher.pid))["pid"] == lurcher.pid
    # Others may run on this machine; of ours both must be named.
    done = stage.command("status")
    assert done.returncode == 64
    for lurcher in both:
        assert f"--pid {lurcher.pid}  probe:application in " in done.stderr


def test_settings_tell_where_the_socket_is(stage: Stage) -> None:
    front = stage.mongrel2()
    (stage.directory / "lurcher.toml").write_text('control = "here.sock"\nworkers = "wrong"\n')
    lurcher = stage.lurcher(*front.options, "--control", "here.sock", "--config", "/dev/null")
    lurcher.wait_for_err("is ready")
    assert status(stage)["pid"] == lurcher.pid, "a mistake elsewhere in the file is no matter"
    off = stage.command("status", "--control", "off")
    assert (off.returncode, off.stdout) == (1, "")
    wrong = stage.command("status", "--jsn", "--pid", "me", "now")
    assert wrong.returncode == 64
    assert "--jsn: no such option; did you mean --json?" in wrong.stderr
    assert "usage: lurcher status [OPTIONS]" in wrong.stderr


def test_what_is_no_request_is_told_so_and_hurts_nobody(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options)
    lurcher.wait_for_err("is ready")
    path = place(stage, lurcher)
    for line in (b"hello\n", b"\xff\x00\n", b'{"verb":"dance"}\n', b"[]\n", b"\n", b"{}\n"):
        answer = ask(path, line)
        assert answer["ok"] is False
        assert answer["error"].startswith("no request: ")
    assert ask(path, b"x" * 9000)["error"] == "the request is too long"
    assert ask(path, b'{"verb":"status"}\n{"verb":"status"}\n')["ok"] is True
    # Many who say nothing, and some who leave before they are answered.
    with contextlib.ExitStack() as silent:
        for _ in range(20):
            client = silent.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(path))
            # Those that are too many are turned away, perhaps before they have said it.
            with contextlib.suppress(OSError):
                client.sendall(b'{"verb":"status"}\n{"ver')
    wait_for("room for another", lambda: ask(path, b'{"verb":"status"}\n')["ok"])
    assert get(front.port, "/number/1").body == b"1"
    pid = lurcher.pid
    used = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    assert used / os.sysconf("SC_CLK_TCK") < 5, "a client that has left keeps no thread busy"


def test_watch_goes_on_until_the_instance_ends(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options)
    lurcher.wait_for_err("is ready")
    watching = Lurcher(
        stage.directory,
        ["status", "--watch", "--json", *pid_of(lurcher)],
        env={"XDG_RUNTIME_DIR": str(stage.directory)},
    )
    try:
        wait_for("two looks", lambda: watching.out().count("\n") >= 2)
        assert lurcher.stop() == 0
        assert watching.wait_exit() == 3
        assert "the instance has ended" in watching.err()
        assert all(json.loads(line)["pid"] == lurcher.pid for line in watching.out().splitlines())
    finally:
        watching.clear_away()


def test_stop_while_it_stops(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options)
    lurcher.wait_for_err("receiving requests")
    with Client(front.port) as client:
        # Longer than the test: what is asked meanwhile finds it stopping.
        client.send_request("GET", "/number/7?ms=60000")
        wait_for("a request", lambda: status(stage, *pid_of(lurcher))["totals"]["requests"] == 1)
        assert stage.command("stop", "--no-wait", *pid_of(lurcher)).returncode == 0
        shown = status(stage, *pid_of(lurcher))
        assert shown["state"] == "leaving"
        again = stage.command("stop", *pid_of(lurcher))
        assert (again.returncode, again.stdout) == (1, "")
        assert again.stderr == "lurcher: it is stopping already\n"
        os.kill(lurcher.pid, signal.SIGTERM)
        assert lurcher.wait_exit() == 1


def test_reload_and_scale_say_what_came_of_it(stage: Stage) -> None:
    front = stage.mongrel2()
    site = Site(stage.directory)
    lurcher = stage.lurcher(*front.options, *site.options, app=None, env=site.env)
    assert version(front.port) == 1
    site.write(2)
    done = stage.command("reload", *pid_of(lurcher))
    assert (done.returncode, done.stdout, done.stderr) == (0, "reloaded\n", "")
    assert version(front.port) == 2
    site.write(3, extra="this is no Python")
    done = stage.command("reload", *pid_of(lurcher))
    assert (done.returncode, done.stdout) == (1, "")
    assert "reload failed, nothing has changed" in done.stderr
    assert "SyntaxError" in done.stderr
    assert version(front.port) == 2
    assert status(stage, *pid_of(lurcher))["restarts"]["reload"] == 1
    done = stage.command("scale", "2", *pid_of(lurcher))
    assert (done.returncode, done.stdout) == (0, "scaling from 1 to 2 workers\n")
    lurcher.wait_for_workers(2)
    for words, code, expected in (
        (["scale", "2"], 0, "2 workers already"),
        (["scale", "0"], 1, "an instance has 1 to 512 workers"),
        (["scale", "many"], 64, "scale: many is no number of workers"),
        (["scale"], 64, "scale: WORKERS is missing"),
    ):
        done = stage.command(*words, *pid_of(lurcher))
        assert done.returncode == code
        assert expected in done.stdout + done.stderr
