"""Messages from a made-up front end: recorded ones, broken ones, and orders of events that Mongrel2 does not produce.

Every reply is read strictly: a message that Mongrel2 cannot parse would cost every client of the handler.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from support import wire
from support.fake import FakeFrontEnd
from support.stage import Stage
from support.waiting import wait_for

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "mongrel2"
FIXTURE_IDENT = "34f9ceee-cd52-4b7f-b197-88bf2f0ec378"
RECORDED = sorted(path.name for path in FIXTURES.glob("*.bin"))

# Messages that are no requests of their own: nothing, or only a close, is a right answer to them.
NO_REQUEST = re.compile(
    r"(disconnect|flow-control-credits|upload-start|upload-aborted|chunked-upload-start|upload-stream-|upload-done"
    r"|chunked-upload-done|websocket-(frame|binary|ping|pong|fragmented|close|disconnect)|json-socket|xml-socket)"
)

# Requests that a careful server may refuse: forged upload headers, and lengths that nobody can be sure of.
MAY_BE_REFUSED = re.compile("spoof|content-length-(and-chunked|bogus|dup)|duplicate-host")


def status(payload: bytes) -> int:
    line = re.match(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) ", payload)
    assert line, f"no status line: {payload[:80]!r}"
    return int(line[1])


def body(payload: bytes) -> bytes:
    return payload.partition(b"\r\n\r\n")[2]


def assert_serves(front: FakeFrontEnd, conn: int) -> None:
    """An ordinary request on a fresh connection is answered."""
    front.request(conn, f"/number/{conn}")
    assert body(front.collect(conn)[0]) == b"%d" % conn


def test_the_harness_writes_what_mongrel2_writes() -> None:
    """Both encodings of a recorded request, made again from its parts."""
    values: dict[bytes, bytes | list[bytes]] = {
        b"PATH": b"/",
        b"x-forwarded-for": b"127.0.0.1",
        b"x-a": [b"1", b"2", b"3"],
        b"host": b"localhost",
        b"METHOD": b"GET",
        b"VERSION": b"HTTP/1.1",
        b"URI": b"/",
        b"PATTERN": b"/",
        b"URL_SCHEME": b"http",
        b"REMOTE_ADDR": b"127.0.0.1",
    }
    for name, protocol in (("duplicate-headers", "json"), ("duplicate-headers.tnet", "tnetstring")):
        recorded = (FIXTURES / f"{name}.bin").read_bytes()
        conn = int(recorded.split(b" ")[1])
        made = wire.message(FIXTURE_IDENT, conn, b"/", values, protocol=protocol)
        assert sorted(made) == sorted(recorded), name
        if protocol == "json":
            there = json.loads(recorded.partition(b":")[2].rpartition(b",0:,")[0])
            assert there == json.loads(made.partition(b":")[2].rpartition(b",0:,")[0])


def test_everything_recorded_from_mongrel2(stage: Stage) -> None:
    """Requests are answered; nothing else is, except by closing; nothing does harm."""
    front = stage.fake(ident=FIXTURE_IDENT)
    lurcher = stage.lurcher(*front.options)
    assert_serves(front, 1_000_000)
    for count, name in enumerate(RECORDED, 1_000_001):
        ident, _, rest = (FIXTURES / name).read_bytes().split(b" ", 2)
        # Ids of several runs collide; a connection of its own for each.
        conn = count - 1_000_000
        front.replies.clear()
        front.send(b"%s %d %s" % (ident, conn, rest))
        if not NO_REQUEST.match(name):
            payload, _ = front.collect(conn, bodiless=name.startswith("head."))
            code = status(payload)
            if name.startswith(("header-name-control", "header-name-crlf")):
                assert code == 400, name
            elif name.startswith("websocket-handshake"):
                assert 400 <= code < 600, name
            else:
                allowed = (200, 400) if MAY_BE_REFUSED.search(name) else (200,)
                assert code in allowed, f"{name}: {payload!r}"
            assert b"root:" not in payload, name
        assert_serves(front, count)
        front.disconnect(conn)
        front.disconnect(count)
    assert lurcher.is_alive()


def test_events_are_never_answered(stage: Stage, protocol: str) -> None:
    """An answer to a disconnect would beget another disconnect, for ever."""
    front = stage.fake(protocol)
    stage.lurcher(*front.options)
    assert_serves(front, 1)
    front.replies.clear()
    for conn in range(2, 50):
        front.disconnect(conn)
        front.send(wire.event(front.ident, conn, "credits", protocol))
        front.send(wire.event(front.ident, conn, "something-new", protocol))
    assert_serves(front, 1000)
    assert {target for reply in front.replies for target in reply.targets} == {1000}


def broken(ident: str, conn: int) -> list[bytes]:
    """Messages with a readable address and something wrong behind it."""
    start = b"%s %d / " % (ident.encode(), conn)
    return [
        start,
        start + b"0:,",
        start + b"0:,0:,",
        start + b"2:{},",
        start + b"2:{},0:,x",
        start + b"2:{},1:,",
        start + b"5:{},0:,",
        start + b"99999999999999999999:{},0:,",
        start + b"-2:{},0:,",
        start + b"02:{},0:,",
        start + b'9:{"a":"b"},0:,',
        start + b'7:{"a":1},0:,',
        start + b'8:{"a":"b},0:,',
        start + b"1:{,0:,",
        start + b"4:{:},0:,",
        start + b"2:[],0:,",
        start + b"3:1:a}0:,",
        start + b"8:1:a,1:b,}0:,",
        start + b"8:1:a,1:1#}0:,",
        start + b"10:1:a,4:0:~,]}0:,",
        start + b"[" * 5000,
        start + b"20000:" + b"1:" * 10000 + b"}0:,",
        start + b"\x00\xff\xfe",
    ]


def test_broken_messages_are_answered_400_and_closed(stage: Stage) -> None:
    front = stage.fake()
    lurcher = stage.lurcher(*front.options)
    assert_serves(front, 1)
    messages = broken(front.ident, 0)
    for conn, _ in enumerate(messages, 100):
        front.send(broken(front.ident, conn)[conn - 100])
    for conn, message in enumerate(messages, 100):
        payload, closed = front.collect(conn)
        assert status(payload) == 400, message
        assert closed, message
    assert_serves(front, 2)
    assert lurcher.is_alive()
    # Counted, and logged at most once a second: far fewer lines than messages.
    told = [line for line in lurcher.err().splitlines() if " WARN " in line or " ERROR " in line]
    assert 1 <= len(told) < len(messages), lurcher.err()


def test_messages_without_an_address_are_survived(stage: Stage) -> None:
    front = stage.fake()
    lurcher = stage.lurcher(*front.options)
    assert_serves(front, 1)
    front.replies.clear()
    ident = front.ident.encode()
    for message in (
        *(
            b"",
            b" ",
            b"   ",
            b"\x00",
            b"\xff" * 1000,
            ident,
            ident + b" ",
            ident + b" x / 2:{},0:,",
        ),
        *(
            ident + b"  1 / 2:{},0:,",
            ident + b" 4294967296 / 2:{},0:,",
            ident + b" 1",
            b"1:" * 9999,
        ),
        *(ident + b" 99999999999999999999999999 / 2:{},0:,", b"x" * 300 + b" 1 / 2:{},0:,"),
        *(ident + b" 1e3 / 2:{},0:,", ident + b" +1 / 2:{},0:,", b"a_b 1 / 2:{},0:,"),
    ):
        front.send(message)
    assert_serves(front, 2)
    assert lurcher.is_alive()


def test_no_part_of_a_message_does_harm(stage: Stage, protocol: str) -> None:
    """Every beginning of a request, and the request with each byte changed: the process lives and answers strictly."""
    front = stage.fake(protocol)
    lurcher = stage.lurcher(*front.options)
    assert_serves(front, 1)
    whole = wire.request(front.ident, 5, "/path?x=y", headers={b"x-a": [b"1", b"2"]}, body=b"abc")
    chance = random.Random(20)
    for end in range(len(whole)):
        front.send(whole[:end])
    for place in range(len(front.ident) + 1, len(whole)):
        changed = bytearray(whole)
        changed[place] = chance.randrange(256)
        front.send(bytes(changed))
        while front.receive(0):
            pass
    assert_serves(front, 2_000_000)
    assert lurcher.is_alive()


@pytest.mark.parametrize("slots", [1, 4])
def test_a_front_end_that_sends_all_before_it_reads(stage: Stage, slots: int) -> None:
    """It sends more than any ZeroMQ queue holds, then reads every answer."""
    count = 6000
    front = stage.fake()
    stage.lurcher(*front.options, "--queue-limit", str(count + 1), "--threads", str(slots))
    assert_serves(front, 1_000_000)
    for conn in range(1, count + 1):
        front.request(conn, f"/number/{conn}", blind=True)
    answered: set[int] = set()

    def look() -> bool:
        while reply := front.receive(0.05):
            (conn,) = reply.targets
            assert body(reply.payload) == b"%d" % conn
            answered.add(conn)
        return len(answered) == count

    wait_for("all answers", look, 60)


@pytest.mark.parametrize(
    "listens", [False, True], ids=["opens its SUB later", "leaves its SUB alone"]
)
def test_a_front_end_that_sends_before_it_subscribes(stage: Stage, listens: bool) -> None:
    """It waits for us to take a request before it uses its SUB, as we wait for its subscription."""
    front = stage.fake(subscribe=listens)
    lurcher = stage.lurcher(*front.options)
    front.request(1, "/number/1", blind=True)
    lurcher.wait_for_err("WARN")
    if not listens:
        front.listen()
    assert body(front.collect(1)[0]) == b"1"
    assert_serves(front, 1000)


def test_pipelined_requests_of_one_connection_run_one_at_a_time(
    stage: Stage, protocol: str
) -> None:
    front = stage.fake(protocol)
    stage.lurcher(*front.options, "--workers", "2")
    for n, ms in enumerate([150, 0, 30, 0, 0, 60, 0]):
        front.request(7, f"/number/{n}?ms={ms}")
    wait_for(
        "seven answers",
        lambda: (front.receive(0.05) and False) or len(front.of(7)) >= 7,
        15,
    )
    assert [body(payload) for payload in front.of(7)] == [b"%d" % n for n in range(7)]
    lines = [line.split()[:2] for line in stage.record()]
    assert lines == [[what, str(n)] for n in range(7) for what in ("begun", "done")]


def test_what_waits_for_a_client_that_has_left_is_never_begun(stage: Stage, protocol: str) -> None:
    front = stage.fake(protocol)
    stage.lurcher(*front.options, "--threads", "1")
    assert_serves(front, 1)
    front.request(2, "/number/2?ms=500")
    wait_for("it to be at work", lambda: any("begun 2 " in line for line in stage.record()))
    for n in (3, 4, 5):
        front.request(n, f"/number/{n}")
    front.request(2, "/number/22")
    for conn in (2, 3, 5):
        front.disconnect(conn)
    assert body(front.collect(4)[0]) == b"4"
    assert_serves(front, 6)
    worked_on = {line.split()[1] for line in stage.record() if line.startswith("begun ")}
    assert worked_on == {"1", "2", "4", "6"}


def test_a_client_that_leaves_gets_its_iterable_closed(stage: Stage, protocol: str) -> None:
    front = stage.fake(protocol)
    stage.lurcher(*front.options)
    front.request(1, "/stream?count=100000&size=50&ms=5")
    wait_for("the first block", lambda: front.receive(0.05))
    front.disconnect(1)
    closed = wait_for("the close", lambda: [x for x in stage.record() if x.startswith("closed ")])
    assert len(closed) == 1


def test_beyond_the_queue_limit_there_is_503(stage: Stage, protocol: str) -> None:
    front = stage.fake(protocol)
    stage.lurcher(*front.options, "--threads", "1", "--queue-limit", "5")
    assert_serves(front, 1)
    front.request(2, "/number/2?ms=700")
    wait_for("it to be at work", lambda: any("begun 2 " in line for line in stage.record()))
    for conn in range(3, 33):
        front.request(conn, f"/number/{conn}")
    answers = {conn: front.collect(conn)[0] for conn in range(2, 33)}
    served = [conn for conn, payload in answers.items() if status(payload) == 200]
    refused = [conn for conn, payload in answers.items() if status(payload) == 503]
    assert len(served) + len(refused) == 31
    assert 6 <= len(served) <= 12, served
    for conn in refused:
        assert re.search(rb"\r\nRetry-After: [0-9]+\r\n", answers[conn])
    assert_serves(front, 100)


def test_many_small_blocks_are_few_messages(stage: Stage, protocol: str) -> None:
    """Mongrel2 lets 16 messages wait for one client, the close included."""
    front = stage.fake(protocol)
    stage.lurcher(*front.options)
    front.request(1, "/stream?count=2000&size=10", version="HTTP/1.0")
    payload, closed = front.collect(1)
    assert body(payload) == b"".join(b"%d" % (i % 10) * 9 + b"\n" for i in range(1, 2001))
    assert closed
    assert len(front.of(1)) <= 16


def test_a_small_answer_is_one_message(stage: Stage, protocol: str) -> None:
    front = stage.fake(protocol)
    stage.lurcher(*front.options)
    assert_serves(front, 1)
    assert len(front.of(1)) == 1
    front.request(2, "/number/2", version="HTTP/1.0")
    payload, closed = front.collect(2)
    assert (body(payload), closed) == (b"2", True)
    assert len(front.of(2)) == 2


def test_ids_above_two_to_the_31(stage: Stage) -> None:
    """Mongrel2 prints them as negative numbers and wants them back without a sign."""
    front = stage.fake()
    stage.lurcher(*front.options)
    assert_serves(front, 4_294_967_294)
    negative = wire.request(front.ident, 5, "/number/9").replace(b" 5 ", b" -5 ", 1)
    front.send(negative)
    assert body(front.collect(2**32 - 5)[0]) == b"9"


def test_the_scheme_is_the_front_ends_word(stage: Stage, protocol: str) -> None:
    front = stage.fake(protocol)
    stage.lurcher(*front.options)
    forged: dict[bytes, bytes | list[bytes]] = {b"url-scheme": b"ftp", b"url_scheme": b"ftp"}
    front.send(
        wire.request(front.ident, 1, "/environ", headers=forged, protocol=protocol, scheme=b"https")
    )
    shown = json.loads(body(front.collect(1)[0]))
    assert shown["wsgi.url_scheme"] == ["str", "https"]
    assert shown["SERVER_PORT"] == ["str", "443"]


def test_forged_upload_headers_open_no_file(stage: Stage, protocol: str) -> None:
    front = stage.fake(protocol)
    stage.lurcher(*front.options)
    forged: dict[bytes, bytes | list[bytes]] = {
        b"x-mongrel2-upload-start": b"/etc/passwd",
        b"x-mongrel2-upload-done": b"/etc/passwd",
        b"content-length": b"0",
    }
    for conn, target in enumerate(("/echo", "/environ"), 1):
        front.request(conn, target, method="POST", headers=forged)
        payload, _ = front.collect(conn)
        assert b"root:" not in payload
        assert b"UPLOAD" not in payload


@pytest.mark.parametrize("same_ident", [False, True])
def test_an_answer_leaves_by_the_link_its_request_came_by(stage: Stage, same_ident: bool) -> None:
    """Two front ends use the same connection ids, and in the worst case the same identity."""
    one = stage.fake()
    two = stage.fake("tnetstring", ident=one.ident if same_ident else None)
    stage.lurcher(*one.options, *two.options)
    for conn in range(1, 40):
        one.request(conn, f"/number/{conn}000?ms=3")
        two.request(conn, f"/number/{conn}111?ms=2")
    for conn in range(1, 40):
        assert body(one.collect(conn)[0]) == b"%d000" % conn
        assert body(two.collect(conn)[0]) == b"%d111" % conn
