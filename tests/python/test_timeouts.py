"""Time limits: waiting for a slot, being at work, and workers that give no sign of life."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import bridge
from support.front import FrontEnd
from support.load import Load
from support.process import APPS, Lurcher
from support.rawhttp import Client, ClosedError, get
from support.stage import Stage
from support.waiting import wait_for


def test_who_waits_too_long_for_a_slot_gets_503(stage: Stage) -> None:
    """The slow request and the one after it are served, those between are told to come again."""
    front = stage.mongrel2()
    log = stage.directory / "access.log"
    lurcher = stage.lurcher(
        *front.options, "--threads", "1", "--queue-timeout", "700ms", "--access-log", str(log)
    )
    get(front.port, "/number/0")
    with Client(front.port) as slow, ThreadPoolExecutor(3) as pool:
        slow.send_request("GET", "/number/1?ms=3000")
        # Pipelined: its own connection is busy, and that does not count.
        slow.send_request("GET", "/number/2")
        lurcher.wait_for_workers(1)
        began = time.monotonic()
        waiting = list(pool.map(lambda n: get(front.port, f"/number/{n}"), range(3, 6)))
        took = time.monotonic() - began
        assert [r.status for r in waiting] == [503] * 3
        assert all(r.header("Retry-After") == "1" for r in waiting)
        assert 0.6 < took < 2.8, took
        assert slow.response().body == b"1"
        assert slow.response().body == b"2"
    lurcher.wait_for_err("no slot came free within --queue-timeout (0.7 s)")
    assert lurcher.stop() == 0
    assert log.read_text().count('" 503 ') == 3


def hanging(stage: Stage, *options: str) -> tuple[FrontEnd, Lurcher]:
    """Four slots, half a second for each request."""
    front = stage.mongrel2()
    log = ["--access-log", str(stage.directory / "access.log")]
    words = ["--threads", "4", "--request-timeout", "500ms", *log, *options]
    lurcher = stage.lurcher(*front.options, *words, app="hanging:application")
    lurcher.wait_for_workers(1)
    assert get(front.port, "/quick").body == b"quick"
    return front, lurcher


def statuses(stage: Stage) -> Counter[str]:
    lines = (stage.directory / "access.log").read_text().splitlines()
    return Counter(line.split('"')[2].split()[0] for line in lines)


def test_a_stuck_request_costs_one_slot_until_its_worker_is_replaced(stage: Stage) -> None:
    """`time.sleep(3600)`: 504 on time, everyone else is served throughout, and the worker goes without harm."""
    front, lurcher = hanging(stage, "--request-grace", "700ms")
    (old,) = lurcher.worker_pids()
    load = Load(front.port, 3, lambda number: f"/number/{number}").start()
    began = time.monotonic()
    answer = get(front.port, "/sleep?for=3600")
    took = time.monotonic() - began
    assert answer.status == 504
    assert answer.header("Connection") == "close"
    assert 0.4 < took < 3, took
    lurcher.wait_for_err("has timed out and does not end: the worker is replaced")
    wait_for("the stuck worker to be gone", lambda: lurcher.worker_pids() not in ([old], []), 20)
    wait_for("one worker", lambda: old not in lurcher.worker_pids(), 20)
    load.wait_for_more(20)
    load.stop()
    assert not load.failures(), load.summary()
    said = lurcher.err()
    title = "request timed out after 0.5 s: GET /sleep?for=3600 (ticket #"
    assert title in said, said
    # The stack ends where it hangs and begins with the application.
    block = said.partition(title)[2].split("\n20", 1)[0]
    assert "time.sleep(seconds)" in block, block
    assert "lurcher/worker.py" not in block, block
    assert "thread lurcher-slot-" in block
    assert "answered 502" not in said
    assert lurcher.stop() == 0
    assert statuses(stage)["504"] == 1


def test_an_exception_ends_what_runs_python_and_cleans_up(stage: Stage) -> None:
    """It passes `except Exception`, runs `finally`, and the slot serves on in the same process."""
    front, lurcher = hanging(stage)
    (pid,) = lurcher.worker_pids()
    for _ in range(4):
        assert get(front.port, "/compute?for=3600").status == 504
    wait_for("all to clean up", lambda: stage.record().count("cleaned up RequestTimeout") == 4)
    assert "swallowed" not in stage.record()
    with ThreadPoolExecutor(4) as pool:
        assert all(
            r.body == b"quick" for r in pool.map(lambda _: get(front.port, "/quick"), range(8))
        )
    assert lurcher.worker_pids() == [pid]
    assert "Traceback" not in lurcher.err(), lurcher.err()


def test_a_response_that_has_begun_is_cut(stage: Stage) -> None:
    front, lurcher = hanging(stage)
    with Client(front.port) as client:
        client.send_request("GET", "/drip")
        assert client.head()[1] == 200
        assert client.chunk() == b"drop\n"
        with pytest.raises(ClosedError):
            client.chunks()
    lurcher.wait_for_err("request timed out after 0.5 s: GET /drip")
    wait_for("its end", lambda: "closed drip" in stage.record())


def test_the_exception_never_reaches_the_next_request(stage: Stage) -> None:
    """By brute force: requests that end just when their time is over, and innocent ones after them."""
    front = stage.mongrel2()
    words = ["--threads", "2", "--request-timeout", "40ms", "--request-grace", "10s"]
    lurcher = stage.lurcher(*front.options, *words, app="hanging:application")
    lurcher.wait_for_workers(1)
    get(front.port, "/quick")
    seen: Counter[int] = Counter()

    def ask(number: int) -> None:
        with Client(front.port) as client:
            for turn in range(60):
                late = 36 + (number * 7 + turn) % 9
                client.send_request("GET", f"/edge?for={late / 1000}")
                status = client.response().status
                seen[status] += 1
                if status != 200:
                    client.assert_closed()
                    return
                assert client.get("/quick").body == b"quick"

    deadline = time.monotonic() + 4
    number = 0
    with ThreadPoolExecutor(2) as pool:
        while time.monotonic() < deadline:
            list(pool.map(ask, (number, number + 1)))
            number += 2
    assert seen.keys() <= {200, 504}, seen
    assert min(seen.values()) > 10, seen
    # What an innocent one would have recorded.
    assert "quick was interrupted" not in stage.record()
    assert "panicked" not in lurcher.err()
    assert lurcher.worker_pids(), "the worker lives"


def test_an_exception_that_comes_too_late_is_taken_back(stage: Stage) -> None:
    """The request's last wait is in C, and nothing of Python follows it: the exception is still pending at its end."""
    front = stage.mongrel2()
    words = ["--threads", "1", "--request-timeout", "100ms", "--request-grace", "10s"]
    lurcher = stage.lurcher(*front.options, *words, app="hanging:application")
    lurcher.wait_for_workers(1)
    for _ in range(5):
        assert get(front.port, "/pipe?for=0.4").status == 504
        assert get(front.port, "/quick").body == b"quick"
    assert "quick was interrupted" not in stage.record()
    assert lurcher.err().count("request timed out after") == 5


@pytest.mark.parametrize("how", ["stopped", "gil"])
def test_a_worker_without_a_sign_of_life_is_replaced(stage: Stage, how: str) -> None:
    front = stage.mongrel2()
    words = ["--worker-timeout", "800ms", "--threads", "2"]
    lurcher = stage.lurcher(*front.options, *words, app="hanging:application")
    (old,) = lurcher.wait_for_workers(1)
    get(front.port, "/quick")
    with Client(front.port) as client:
        if how == "stopped":
            client.send_request("GET", "/sleep?for=3600")
            wait_for("it to begin", lambda: "sleeps" in stage.record())
            os.kill(old, signal.SIGSTOP)
            why = "its process does not run"
        else:
            client.send_request("GET", "/hold")
            why = "something holds its interpreter (the GIL)"
        said = lurcher.wait_for_err("has given no sign of life for 0.8 s", 20)
        assert why in said
        assert client.response().status == 502
    assert get(front.port, "/quick").body == b"quick"
    wait_for("the old one to be gone", lambda: old not in lurcher.processes())


def test_a_worker_says_what_its_slots_do(tmp_path: Path) -> None:
    """And that it lives: once without its interpreter, once with it."""
    for name in ("hanging.py", "probe.py"):
        (tmp_path / name).write_bytes((APPS / name).read_bytes())
    settings = {"threads": 3, "graceful_timeout_ms": 200}
    with bridge.Instance(tmp_path, "hanging:application", settings) as worker:
        worker.ready()
        ticket = worker.request(bridge.message("/sleep", query="for=3600"))
        worker.wait_until_begun(ticket)
        worker.send(bridge.PING, 9)
        assert sorted(worker.take(bridge.PONG, 9).flags for _ in range(2)) == [0, 1]
        worker.send(bridge.ASK_STACKS, 5)
        (busy,) = json.loads(worker.take(bridge.STACKS, 5).payload)
        assert busy["thread"] == f"lurcher-slot-{busy['slot'] + 1}"
        assert (busy["ticket"], busy["request"]) == (ticket, "GET /sleep?for=3600")
        assert 0 <= busy["age_ms"] < 20_000
        assert "in application" in busy["stack"][0], busy
        assert "time.sleep(seconds)" in busy["stack"][-1], busy


def test_stacks_of_all_busy_slots(stage: Stage) -> None:
    """Of workers that work, that have nothing to do, and that do not run."""
    front = stage.mongrel2()
    words = [*front.options, "--workers", "3", "--threads", "2"]
    lurcher = stage.lurcher(*words, app="hanging:application")
    pids = lurcher.wait_for_workers(3)
    lurcher.wait_for_ready(3)
    get(front.port, "/quick")
    with Client(front.port) as client:
        client.send_request("GET", "/sleep?for=4")
        wait_for("it to begin", lambda: "sleeps" in stage.record())
        told = stage.command("stacks", "--pid", str(lurcher.pid))
        assert told.returncode == 0, told.stderr
        assert told.stdout.count("idle\n") == 2, told.stdout
        assert "s: GET /sleep?for=4 (ticket #" in told.stdout
        assert "time.sleep(seconds)" in told.stdout
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            told = stage.command("stacks", "--pid", str(lurcher.pid))
            assert told.stdout.count("no answer within two seconds") == 3
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        assert client.response().body == b"sleep"


def test_a_worker_that_computes_is_left_alone(stage: Stage) -> None:
    """Python code in every slot, for many times --worker-timeout."""
    front = stage.mongrel2()
    words = ["--worker-timeout", "800ms", "--threads", "4"]
    lurcher = stage.lurcher(*front.options, *words, app="hanging:application")
    pids = lurcher.wait_for_workers(1)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: get(front.port, "/compute?for=3"), range(4)))
    assert [answer.status for answer in answers] == [200] * 4
    assert lurcher.worker_pids() == pids
    assert "sign of life" not in lurcher.err()
