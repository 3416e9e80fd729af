"""What an application may return, and what becomes of the connection when it returns something else."""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

import bodies
import pytest
from support import bridge
from support.bridge import Instance, message
from support.rawhttp import Client
from support.waiting import wait_for
from support.ways import Log, Seen, Site, Way, wait_for_response

APP = "bodies:application"


def count(way: Way, word: str) -> int:
    return int(way.ask(f"/noted?{word}").body)


def fails(way: Way, target: str, method: str = "GET") -> Seen:
    """The server's own 500, whose length is right, and the connection in step."""
    seen = way.ask(target, method=method)
    assert seen.status == 500
    assert seen.header("Content-Length") == "26"
    assert seen.body == (b"" if method == "HEAD" else b"500 Internal Server Error\n")
    assert seen.header("X-Old") is None
    assert seen.kept
    return seen


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("none", id="B01"),
        pytest.param("yields-none", id="B01-yields"),
        pytest.param("generator-of-none", id="B01-generator"),
        pytest.param("int", id="B01-int"),
        pytest.param("object", id="B01-object"),
        pytest.param("function", id="B01-function"),
        pytest.param("list-of-int", id="B01-list-of-int"),
        pytest.param("list-of-lists", id="B01-list-of-lists"),
        pytest.param("list-of-str", id="B02"),
        pytest.param("str", id="B02-str"),
        pytest.param("tuple-of-str", id="B02-tuple"),
        pytest.param("generator-of-str", id="B02-generator"),
        pytest.param("mixed-list", id="B02-mixed"),
        pytest.param("bytes", id="B02-bytes"),
        pytest.param("bytearray", id="B02-bytearray"),
        pytest.param("memoryview", id="B02-memoryview"),
    ],
)
def test_bodies_that_are_none(way: Way, log: Log, kind: str) -> None:
    fails(way, f"/wrongs?{kind}")
    log.wait_for("TypeError: ")
    assert log.said().count("TypeError: ") == 1


def test_none_with_204_is_an_error_and_an_empty_list_is_not(way: Way, log: Log) -> None:
    """B01."""
    seen = way.ask("/empty-with-204")
    assert (seen.status, seen.body) == (204, b"")
    assert log.said() == ""
    fails(way, "/nothing-with-204")
    log.wait_for("the application returned None")


@pytest.mark.parametrize("kind", [pytest.param("str", id="B02-late"), "none", "bytearray", "int"])
def test_a_wrong_block_after_the_head_cuts(way: Way, log: Log, kind: str) -> None:
    seen = way.ask(f"/late?{kind}")
    assert (seen.status, seen.body, seen.framing) == (200, b"a", "cut")
    log.wait_for("TypeError: the application must yield bytes")


@pytest.mark.parametrize(
    ("kind", "framing"),
    [
        pytest.param("single", "length", id="B13"),
        pytest.param("list", "length", id="B13-list"),
        pytest.param("tuple", "length", id="B13-tuple"),
        pytest.param("iterator", "chunked", id="B13-iterator"),
        pytest.param("generator", "chunked", id="B13-generator"),
        pytest.param("map", "chunked", id="B13-map"),
        pytest.param("dict", "chunked", id="B13-dict"),
        pytest.param("subclass", "length", id="B13-subclass"),
        pytest.param("lying-list", "chunked", id="B13-lying"),
        pytest.param("lying-tuple", "chunked", id="B13-lying-tuple"),
        pytest.param("hostile-list", "chunked", id="B13-raising"),
        pytest.param("file", "chunked", id="B13-file"),
        pytest.param("old-style", "chunked", id="B13-getitem"),
    ],
)
def test_bodies(way: Way, kind: str, framing: str) -> None:
    seen = way.ask(f"/rights?{kind}")
    assert (seen.body, seen.framing) == (b"abc", framing)
    old = way.ask(f"/rights?{kind}", version="HTTP/1.0")
    assert (old.body, old.framing) == (b"abc", "length" if framing == "length" else "close")
    head = way.ask(f"/rights?{kind}", method="HEAD")
    assert (head.status, head.header("Content-Length"), head.kept) == (200, None, True)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        pytest.param("normal", 200, id="B03"),
        pytest.param("204", 204, id="B03-204"),
        pytest.param("304", 304, id="B03-304"),
        pytest.param("empty", 200, id="B03-empty"),
        pytest.param("empty-blocks", 200, id="B03-empty-blocks"),
        pytest.param("raises", 200, id="B03-raises"),
        pytest.param("raises-first", 500, id="B03-raises-first"),
        pytest.param("no-iter", 500, id="B03-no-iter"),
        pytest.param("early", 200, id="B03-length-reached"),
        pytest.param("short", 200, id="B03-short"),
        pytest.param("wrong-block", 500, id="B03-wrong-block"),
        pytest.param("list", 200, id="B03-list"),
        pytest.param("never-started", 500, id="B03-never-started"),
        pytest.param("file", 200, id="B05"),
        pytest.param("file-by-hand", 200, id="B05-by-hand"),
        pytest.param("file-early", 200, id="B05-length-reached"),
        pytest.param("file-raises", 500, id="B05-raises"),
        pytest.param("file-204", 204, id="B05-204"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_close_is_called_once(way: Way, kind: str, status: int, method: str, version: str) -> None:
    word = uuid.uuid4().hex
    seen = way.ask(f"/closings?{kind},{word}", method=method, version=version)
    assert seen.status == status
    assert count(way, word) == 1


def test_an_error_in_the_middle_closes_the_generator(way: Way, log: Log) -> None:
    """B06, B07: and the client can tell that something is missing."""
    word = uuid.uuid4().hex
    seen = way.ask(f"/generator-with-finally?raises,{word}")
    assert (seen.body, seen.framing) == (b"part", "cut")
    assert count(way, word) == 1
    log.wait_for(f"ValueError: {word}")


def test_a_client_that_leaves_closes_the_generator(way: Way, log: Log) -> None:
    """B03, B06."""
    word = uuid.uuid4().hex
    talk = way.talk()
    talk.ask("GET", f"/generator-with-finally?endless,{word}", (), None, "HTTP/1.1")
    wait_for("the first block", lambda: (talk.more(), b"part" in talk.received()[0])[1])
    talk.leave()
    wait_for("the generator to be closed", lambda: count(way, word))
    assert count(way, word) == 1
    assert "Traceback" not in log.said()


@pytest.mark.parametrize(
    ("target", "version", "framing"),
    [
        pytest.param("/raises-in-the-middle", "HTTP/1.1", "cut", id="B07"),
        pytest.param("/raises-in-the-middle?9", "HTTP/1.1", "cut", id="B07-length"),
        pytest.param("/raises-in-the-middle?9", "HTTP/1.0", "cut", id="B07-length-1.0"),
        pytest.param("/raises-in-the-middle", "HTTP/1.0", "close", id="B07-1.0"),
        pytest.param("/fails-in-close", "HTTP/1.1", "cut", id="B07-close"),
    ],
)
def test_half_a_body_does_not_look_whole(
    way: Way, log: Log, target: str, version: str, framing: str
) -> None:
    seen = way.ask(target, version=version)
    assert (seen.status, seen.body, seen.framing, seen.kept) == (200, b"part", framing, False)
    log.wait_for("ValueError: in ")


@pytest.mark.parametrize(
    "kind", [pytest.param("blocks", id="B08"), "write", "both", "list", "file"]
)
def test_a_body_that_is_too_short(way: Way, log: Log, kind: str) -> None:
    seen = way.ask(f"/lengths?300,{kind}")
    assert (seen.header("Content-Length"), seen.framing, seen.kept) == ("300", "cut", False)
    assert seen.body.startswith(b"HelloEXTRA")
    log.wait_for("shorter than its content length 300")


@pytest.mark.parametrize(
    "kind", [pytest.param("blocks", id="B09"), "write", "both", "list", "block", "file"]
)
@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_body_that_is_too_long(way: Way, log: Log, kind: str, length: int) -> None:
    seen = way.ask(f"/lengths?{length},{kind}")
    assert (seen.body, seen.framing, seen.kept) == (b"Hello"[:length], "length", True)
    # Of a file only as much is read as was announced: a part of one is what it is for.
    if kind != "file":
        log.wait_for(f"longer than its content length {length}")


def test_the_iteration_stops_where_the_body_is_full(way: Way) -> None:
    """B09."""
    before, closed = count(way, "blocks"), count(way, "lengths-5")
    way.ask("/lengths?5,blocks")
    assert count(way, "blocks") - before == 3
    assert count(way, "lengths-5") - closed == 1


HEADS = ["list", "length", "length-iter", "length-empty", "iter", "empty", "empty-iter", "write"]


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, id=f"B10-{kind}") for kind in [*HEADS, "file"]]
)
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_heads(way: Way, log: Log, kind: str, version: str) -> None:
    keep = [("Connection", "keep-alive")]
    seen = way.ask(f"/heads?{kind}", method="HEAD", headers=keep, version=version)
    assert (seen.status, seen.kept) == (200, True)
    # B13: what the application said, and nothing that was made up.
    assert seen.header("Content-Length") == ("5" if kind.startswith("length") else None)
    assert seen.header("Transfer-Encoding") is None
    assert log.said() == ""


@pytest.mark.parametrize("kind", ["list", "iter", "empty", "write"])
@pytest.mark.parametrize("length", ["", "5", "0"])
@pytest.mark.parametrize(
    "status", [pytest.param(204, id="B11-204"), pytest.param(304, id="B11-304")]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_statuses_without_a_body(
    way: Way, log: Log, status: int, length: str, kind: str, method: str
) -> None:
    seen = way.ask(f"/statuses?{status},{length},{kind}", method=method)
    assert (seen.status, seen.body, seen.kept) == (status, b"", True)
    assert seen.header("Transfer-Encoding") is None
    # B13: nothing is made up for a 304.
    assert seen.header("Content-Length") == (length or None if status == 304 else None)
    if kind != "empty" and method == "GET":
        log.wait_for(f"body with status {status}")
        assert log.said().count("body with status") == 1


@pytest.mark.parametrize("status", [pytest.param(100, id="B11-100"), 101, 103, 199])
def test_interim_statuses_are_no_answers(way: Way, status: int) -> None:
    """No final one could follow, so nobody is left to wait for it."""
    seen = way.ask(f"/statuses?{status},5,list")
    assert (seen.status, seen.kept) == (status, False)
    assert seen.header("Content-Length") is None
    assert seen.header("Transfer-Encoding") is None


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("bytesio", b"0123456789", id="B14"),
        pytest.param("only-read", b"0123456789", id="B14-read"),
        pytest.param("empty", b"", id="B14-empty"),
        pytest.param("real", b"0123456789", id="B15-file"),
        pytest.param("raw", b"0123456789", id="B15-raw"),
        pytest.param("seek", b"56789", id="B15"),
        pytest.param("read", b"56789", id="B15-read"),
        pytest.param("part", b"234", id="B15-part"),
        pytest.param("seek-without-length", b"56789", id="B15-without-length"),
        pytest.param("pipe", b"0123456789", id="B16"),
        pytest.param("upper", b"ABC", id="B18"),
        pytest.param("iterated", b"0123456789.", id="B18-iterated"),
        pytest.param("begun", b"456789", id="B18-begun"),
        pytest.param("size", b"0123456789", id="B19"),
        pytest.param("size-by-name", b"0123456789", id="B19-name"),
        pytest.param("size-of-one", b"0123456789", id="B19-one"),
    ],
)
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_files(way: Way, log: Log, kind: str, body: bytes, version: str) -> None:
    assert way.ask(f"/files?{kind}", version=version).body == body
    assert log.said() == ""


@pytest.mark.parametrize("kind", [pytest.param("text", id="B14-text"), "nothing"])
def test_files_that_are_none(way: Way, kind: str) -> None:
    fails(way, f"/files?{kind}")


def test_a_large_file_to_a_slow_client(site: Site, way: Way) -> None:
    """B17: through a small window, nothing is lost."""
    if way.is_wire:
        body = way.ask("/large-file").body
    else:
        with Client(site.front.port, receive_buffer=4096) as client:
            body = client.get("/large-file").body
    places = struct.unpack("8s" * (bodies.LARGE // 8), body)
    assert places == tuple(b"%08d" % place for place in range(bodies.LARGE // 8))


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        pytest.param(bodies.HUGE - 4, b"tail", id="B20"),
        pytest.param(bodies.HUGE - 6, b"\0\0tail", id="B20-hole"),
    ],
)
def test_the_end_of_a_huge_file(way: Way, begin: int, end: bytes) -> None:
    assert way.ask(f"/huge-file?{begin}").body == end


def test_the_length_of_a_huge_file(way: Way) -> None:
    """B20."""
    head = way.ask("/huge-file", method="HEAD")
    assert head.header("Content-Length") == str(bodies.HUGE)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("bodies.py", "afterwards.py"):
        (tmp_path / name).write_bytes(Path(bodies.__file__).with_name(name).read_bytes())
    return tmp_path


def peak(pid: int) -> int:
    """The most memory that a process has had, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def test_a_huge_file_passes_through_little_memory(place: Path) -> None:
    """B20: its last 512 MiB, past the place where 32 bits end."""
    with Instance(place, "bodies:application") as worker:
        worker.ready()
        worker.get("/noted?x")
        before = peak(worker.process.pid)
        part = 512 << 20
        ticket = worker.request(message("/huge-file", query=str(bodies.HUGE - part)))
        size, beginning, end = take(worker, ticket)
        assert size == part
        assert beginning.endswith(b"\r\n\r\n" + bytes(8))
        assert end == bytes(4) + b"tail"
        assert peak(worker.process.pid) - before < 16 * 1024
        assert worker.drain() == 0


def take(worker: Instance, ticket: int) -> tuple[int, bytes, bytes]:
    """The size of a body that is thrown away, its beginning (with the head) and its last 8 bytes."""
    size, beginning, end = 0, b"", b""
    space = bytearray(1 << 20)
    have = 0
    while True:
        have += worker.socket.recv_into(memoryview(space)[have:])
        at = taken = 0
        while have - at >= bridge.HEAD.size:
            length, kind, _, _, _ = bridge.HEAD.unpack_from(space, at)
            begin = at + bridge.HEAD.size
            if have - begin < length:
                break
            at = begin + length
            if kind == bridge.END:
                return size + taken, beginning, end
            assert kind == bridge.DATA
            taken += length
            if not beginning:
                body = space.index(b"\r\n\r\n") + 4
                beginning, size = bytes(space[: body + 8]), begin - body
            end = bytes(space[at - 8 : at])
        size += taken
        # What is left of a frame moves to the beginning.
        space[: have - at] = space[at:have]
        have -= at
        if taken:
            worker.send(bridge.ACK, ticket, struct.pack("<Q", taken))


def test_an_application_that_is_faster_than_its_client_waits(place: Path) -> None:
    """B21."""
    with Instance(place, "bodies:application") as worker:
        worker.ready()
        ticket = worker.request(message("/fast"))
        got = 0
        while got < bridge.WINDOW - 64 * 1024:
            got += len(worker.take(bridge.DATA, ticket).payload)
        for _ in range(3):
            assert worker.get("/noted", query="fast").body == b"1"
        worker.send(bridge.GONE, ticket)
        assert worker.answer(ticket, ack=False).outcome == bridge.CLIENT_GONE
        assert worker.get("/noted", query="fast-closed").body == b"1"
        assert worker.drain() == 0


@pytest.mark.parametrize(
    "method", [pytest.param("GET", id="B22"), pytest.param("HEAD", id="B22-h")]
)
@pytest.mark.parametrize("target", ["/errors?EOFError", "/errors-after-start?EOFError"])
def test_the_servers_own_page_is_as_long_as_it_says(way: Way, method: str, target: str) -> None:
    fails(way, target, method)


@pytest.mark.parametrize("length", [pytest.param("", id="B23"), pytest.param("3", id="B23-length")])
def test_write_and_iterable(way: Way, length: str) -> None:
    seen = way.ask(f"/writes?{length}")
    assert (seen.body, seen.framing) == (b"123", "length" if length else "chunked")


@pytest.mark.parametrize("length", [pytest.param(2, id="B23-too-long"), 1])
def test_write_and_iterable_beyond_the_length(way: Way, log: Log, length: int) -> None:
    seen = way.ask(f"/writes?{length}")
    assert (seen.body, seen.kept) == (b"123"[:length], True)
    log.wait_for(f"longer than its content length {length}")


def test_write_takes_no_text(way: Way, log: Log) -> None:
    """B23."""
    fails(way, "/writes-text")
    log.wait_for("TypeError: write() takes bytes, not str")


@pytest.mark.parametrize(
    "kind",
    [pytest.param("iterator", id="B24"), "list", "tuple", "generator"],
)
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_an_empty_body_has_a_head(way: Way, kind: str, version: str) -> None:
    seen = way.ask(f"/empty-iterator?{kind}", version=version)
    assert (seen.status, seen.header("X"), seen.body) == (200, "1", b"")
    assert seen.header("Content-Length") == "0"


@pytest.mark.parametrize("error", [pytest.param(name, id=f"B25-{name}") for name in bodies.ERRORS])
@pytest.mark.parametrize("where", ["/errors", "/errors-in-next", "/errors-after-start"])
def test_exceptions_that_look_like_the_servers_own(
    way: Way, log: Log, error: str, where: str
) -> None:
    if (where, error) == ("/errors-in-next", "StopIteration"):
        # That one is how an iterator ends.
        assert way.ask(f"{where}?{error}").body == b""
        return
    fails(way, f"{where}?{error}")
    log.wait_for(f"{error}: x")
    assert "Traceback (most recent call last)" in log.said()


def test_both_sides_are_held_to_their_length(way: Way) -> None:
    """B26: two bodies and two responses on one connection."""
    talk = way.talk()
    start = 0
    for body in (b"12345", b"67890", b"abcde"):
        talk.ask("POST", "/both-sides", (), body, "HTTP/1.1")
        seen, rest = wait_for_response(talk, "POST", start)
        assert (seen.body, rest) == (body, b"")
        start = len(talk.received()[0])
    talk.leave()
