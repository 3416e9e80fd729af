"""`lurcher.serve(application)` as the last line of a script."""

from __future__ import annotations

import os
import re
import signal
import sys

import pytest
from support.process import APPS, Lurcher, command_line
from support.rawhttp import Client, get
from support.stage import Stage
from support.waiting import wait_for

SCRIPT = """
import os, sys, time
import lurcher

def make(greeting):
    # No import path leads to this one.
    def application(environ, start_response):
        if environ["PATH_INFO"] == "/slow":
            open("begun", "w").close()
            time.sleep(0.5)
        if environ["PATH_INFO"] == "/die":
            os._exit(9)
        body = f"{greeting} {os.getpid()} {os.getppid()}".encode()
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]
    return application

application = make("hello from")
"""
SERVE = 'lurcher.serve(application, "127.0.0.1:0", workers=2, threads=2)\nprint("afterwards")\n'


def run(stage: Stage, last: str) -> Lurcher:
    path = stage.directory / "site.py"
    path.write_text(SCRIPT + last)
    script = Lurcher(
        stage.directory, [str(path)], {"PYTHONPATH": str(APPS)}, command=(sys.executable,)
    )
    stage.lurchers.append(script)
    return script


def port_of(script: Lurcher) -> int:
    def look() -> re.Match[str] | None:
        assert script.is_alive(), f"it ended with {script.process.poll()}:\n{script.err()}"
        return re.search(r"^serving at http://127\.0\.0\.1:(\d+)$", script.out(), re.MULTILINE)

    found = wait_for("the address that is served", look, 20)
    assert found is not None
    return int(found[1])


def test_an_object_is_served_by_forks_of_the_script(stage: Stage) -> None:
    script = run(stage, SERVE)
    port = port_of(script)
    pids = set()

    def both() -> bool:
        with Client(port) as one, Client(port) as two:
            one.send_request("GET", "/slow")
            two.send_request("GET", "/slow")
            for client in (one, two):
                words = client.response().body.split()
                assert words[:2] == [b"hello", b"from"]
                assert int(words[3]) == script.pid
                pids.add(int(words[2]))
        return len(pids) == 2

    wait_for("both workers to answer", both, 20)
    assert script.stop() == 0, script.err()
    assert "afterwards" in script.out()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("group", [False, True], ids=["script", "group"])
def test_stopping_it_finishes_what_was_taken(
    stage: Stage, group: bool, number: signal.Signals
) -> None:
    script = run(stage, SERVE)
    with Client(port_of(script)) as client:
        client.send_request("GET", "/slow")
        wait_for("the request to begin", (stage.directory / "begun").exists)
        if group:
            script.send_signal_group(number)
        else:
            script.send_signal(number)
        assert client.response().body.startswith(b"hello from ")
    assert script.wait_exit() == 0, script.err()
    script.assert_no_orphans()
    assert "afterwards" in script.out()


def test_a_worker_that_dies_is_replaced(stage: Stage) -> None:
    script = run(stage, SERVE.replace("workers=2", "workers=1"))
    port = port_of(script)
    assert get(port, "/die").status == 502
    wait_for("another worker", lambda: get(port, "/").status == 200)
    assert "exit code 9" in script.err()
    words = get(port, "/").body.split()
    os.kill(int(words[2]), signal.SIGKILL)
    wait_for("a third", lambda: get(port, "/").body.split()[2] != words[2])
    assert script.stop() == 0, script.err()


def test_nothing_outlives_the_script(stage: Stage) -> None:
    script = run(stage, SERVE)
    port_of(script)
    script.send_signal(signal.SIGKILL)
    script.wait_exit()
    script.assert_no_orphans(10)


def test_a_stand_in_that_is_killed_takes_its_worker_along(stage: Stage) -> None:
    script = run(stage, SERVE.replace("workers=2", "workers=1"))
    port = port_of(script)
    worker = int(get(port, "/").body.split()[2])
    [stand_in] = [pid for pid in script.worker_pids() if pid != worker]
    os.kill(stand_in, signal.SIGKILL)
    wait_for("the worker to end", lambda: not command_line(worker))
    wait_for("another one", lambda: get(port, "/").status == 200)
    assert script.stop() == 0, script.err()


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("lurcher.serve(application, preload=True)", "ValueError: preload: "),
        ("lurcher.serve(7)", "TypeError: a WSGI application is callable; int is not"),
        (
            "import threading\n"
            "threading.Thread(target=time.sleep, args=(9,), name='early', daemon=True).start()\n"
            "lurcher.serve(application)",
            "other threads running (early)",
        ),
    ],
)
def test_what_cannot_be_is_told(stage: Stage, last: str, said: str) -> None:
    script = run(stage, last)
    assert script.wait_exit() == 1
    assert said in script.err()


def test_a_wrong_setting_is_told_as_the_command_tells_it(stage: Stage) -> None:
    script = run(stage, "lurcher.serve(application, colour=True)")
    assert script.wait_exit() == 64
    assert "--colour: no such option" in script.err()
