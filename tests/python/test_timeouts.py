"""Time limits: waiting for a slot, being at work, and workers that give no sign of life."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from support.rawhttp import Client, get
from support.stage import Stage


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
