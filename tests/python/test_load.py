"""Load: no request fails, and every answer goes to the one who asked for it."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from support.load import Load
from support.stage import Stage

SECONDS = float(os.environ.get("LOAD_SECONDS", "3"))


def run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS + 60, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("keep_alive", [False, True], ids=["close", "keep-alive"])
def test_ab(stage: Stage, protocol: str, workers: int, keep_alive: bool) -> None:
    """HTTP/1.0; ab hangs on a connection that the server forgets to close."""
    front = stage.mongrel2(protocol)
    stage.lurcher(*front.options, "--workers", str(workers))
    url = f"http://127.0.0.1:{front.port}/number/12345"
    said = run("ab", "-q", "-s", "20", "-n", "500", "-c", "5", *(["-k"] if keep_alive else []), url)
    assert re.search(r"^Complete requests: +500$", said, re.MULTILINE), said
    assert re.search(r"^Failed requests: +0$", said, re.MULTILINE), said
    assert "Non-2xx" not in said, said
    assert "Write errors" not in said, said
    if keep_alive:
        assert re.search(r"^Keep-Alive requests: +500$", said, re.MULTILINE), said


@pytest.mark.parametrize("workers", [1, 4])
def test_wrk(stage: Stage, protocol: str, workers: int) -> None:
    front = stage.mongrel2(protocol)
    stage.lurcher(*front.options, "--workers", str(workers))
    url = f"http://127.0.0.1:{front.port}/number/12345"
    said = run("wrk", "-t", "2", "-c", "32", "-d", f"{SECONDS:.0f}s", "--timeout", "10s", url)
    print(said)
    assert "Socket errors" not in said, said
    assert "Non-2xx" not in said, said
    served = re.search(r"(\d+) requests in", said)
    assert served, said
    assert int(served[1]) > 100 * SECONDS, said


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("keep_alive", [False, True], ids=["close", "keep-alive"])
def test_every_answer_repeats_its_number(
    stage: Stage, protocol: str, workers: int, keep_alive: bool
) -> None:
    front = stage.mongrel2(protocol)
    lurcher = stage.lurcher(*front.options, "--workers", str(workers))
    load = Load(front.port, 32, lambda n: f"/number/{n}?ms={n % 7}", keep_alive=keep_alive).start()
    load.wait_for_more(100)
    load.run_for(SECONDS)
    load.stop()
    assert not load.failures(), load.summary()
    assert len(lurcher.worker_pids()) == workers
    begun = [line for line in stage.record() if line.startswith("begun ")]
    assert len(begun) == len(load.outcomes), "a request was run twice, or answered without it"
