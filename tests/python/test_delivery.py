"""Responses at the pace that Mongrel2 and the client can take."""

from __future__ import annotations

import pytest
from support.rawhttp import Client, get
from support.stage import Stage

FLOW = {"download.flow_control": 1}


def blocks(count: int, size: int) -> bytes:
    """What /stream sends."""
    return b"".join(b"%d" % (i % 10) * (size - 1) + b"\n" for i in range(1, count + 1))


@pytest.mark.parametrize(
    ("count", "size"), [(1, 5), (1, 300_000), (500, 10), (300, 1000), (60, 65_536), (8, 250_000)]
)
def test_flow_control_never_gets_more_than_it_allows(
    stage: Stage, protocol: str, count: int, size: int
) -> None:
    """With credits Mongrel2 cuts off a client for whom more than 102400 bytes are unwritten."""
    front = stage.mongrel2(protocol, FLOW)
    stage.lurcher(*front.options)
    with Client(front.port) as client:
        for _ in range(3):
            response = client.get(f"/stream?count={count}&size={size}")
            assert response.body == blocks(count, size)
            response = client.get(f"/stream?count={count}&size={size}&length=1")
            assert response.body == blocks(count, size)


def test_flow_control_waits_for_a_slow_reader(stage: Stage) -> None:
    front = stage.mongrel2("json", FLOW)
    stage.lurcher(*front.options)
    with Client(front.port, 60) as client:
        client.send_request("GET", "/stream?count=400&size=65536")
        for number in range(5):
            # Everyone else is served meanwhile.
            assert get(front.port, f"/number/{number}?ms=200").body == b"%d" % number
        assert client.response().body == blocks(400, 65_536)


def test_a_body_known_at_once_is_one_message(stage: Stage) -> None:
    """Twenty megabytes: more messages than sixteen would cut the client off."""
    front = stage.mongrel2()
    stage.lurcher(*front.options)
    with Client(front.port) as client:
        response = client.get("/stream?count=1&size=20000000&length=1")
        assert response.body == blocks(1, 20_000_000)


def test_slow_blocks_are_not_held_back(stage: Stage, protocol: str) -> None:
    """Forty blocks 20 ms apart, to a client that takes each as it comes."""
    front = stage.mongrel2(protocol)
    stage.lurcher(*front.options)
    with Client(front.port) as client:
        client.send_request("GET", "/stream?count=40&size=6&ms=20")
        client.head()
        chunks = client.chunks()
    assert b"".join(chunks) == blocks(40, 6)
    assert len(chunks) >= 20
