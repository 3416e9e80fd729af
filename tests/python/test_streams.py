"""Bodies that Mongrel2 sends in pieces (upload.stream): read while they come, bounded, and never waited for in vain."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time

import pytest
from support.front import PROTOCOLS, FrontEnd
from support.process import Lurcher
from support.rawhttp import Client, ClosedError
from support.stage import Stage
from support.waiting import wait_for

LINES = b"".join(b"line %d\r\n" % number for number in range(30_000))
DIGEST = hashlib.sha256(LINES).hexdigest()
CHUNKED = [("Transfer-Encoding", "chunked")]
WAYS = ("all", "minus", "blocks", "bytes", "lines", "readline", "short", "readlines", "hint")
RAW_WAYS = ("readinto", "buffered", "text")


@pytest.fixture
def front(stage: Stage) -> FrontEnd:
    return stage.mongrel2(settings={"upload.stream": 1})


def start(stage: Stage, front: FrontEnd, *options: str) -> Lurcher:
    return stage.lurcher(*front.options, *options, app="reader:application")


def chunks(body: bytes, size: int = 50_000) -> bytes:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_way_to_read_gives_the_whole_body(stage: Stage, protocol: str) -> None:
    front = stage.mongrel2(protocol, {"upload.stream": 1})
    start(stage, front, "--upload-window", "64K")
    with Client(front.port) as client:
        for way in (*WAYS, *RAW_WAYS):
            answer = client.ask("POST", f"/digest?way={way}", body=LINES)
            assert answer.body.decode() == f"{DIGEST} {len(LINES)} {len(LINES)}", way
        for way in ("blocks", "lines"):
            client.send_request("PUT", f"/digest?way={way}", CHUNKED)
            client.send(chunks(LINES, 100_000))
            answer = client.response("PUT")
            assert answer.body.decode() == f"{DIGEST} {len(LINES)} None"
        client.send_request("PUT", "/digest", CHUNKED)
        client.send(chunks(b""))
        assert client.response("PUT").body.endswith(b" 0 None")
        assert client.ask("POST", "/digest", body=b"small").body.endswith(b" 5 5")


def test_the_body_is_read_while_it_comes(stage: Stage, front: FrontEnd) -> None:
    start(stage, front)
    with Client(front.port) as client:
        client.send_request("POST", "/echo", [("Content-Length", "100000")])
        client.send(b"a" * 50_000)
        assert client.head()[1] == 200
        client.send(b"b" * 50_000)
        wait_for("the end", lambda: b"\r\n0\r\n\r\n" in client.buffer or not client.more(), 20)
        assert client.buffer.count(b"a") >= 50_000
        assert client.buffer.count(b"b") >= 50_000
        client.buffer = b""
        assert client.get("/").body == b"hello"


def test_what_is_not_read_stalls_nobody(stage: Stage, front: FrontEnd) -> None:
    start(stage, front, "--threads", "1")
    with Client(front.port) as client:
        # A little rest is let in.
        for read in (0, 10_000):
            answer = client.ask("POST", f"/some?bytes={read}", body=b"x" * 100_000)
            assert answer.body == b"x" * read
        # For a large one the connection is closed.
        client.send(b"POST /some?bytes=9 HTTP/1.1\r\nHost: t\r\nContent-Length: 9000000\r\n\r\n")
        client.send(b"x" * 100_000)
        assert client.response("POST").body == b"x" * 9
        client.assert_closed()
    for _ in range(3):
        with Client(front.port) as client:
            client.send_request("PUT", "/", CHUNKED)
            client.send(b"5\r\nhello\r\n")
            assert client.response("PUT").body == b"hello"
            client.assert_closed()


def test_a_client_that_leaves_ends_the_read(stage: Stage, front: FrontEnd) -> None:
    lurcher = start(stage, front, "--threads", "1")
    with Client(front.port) as client:
        client.send(b"POST /digest HTTP/1.1\r\nHost: t\r\nContent-Length: 9000000\r\n\r\n")
        client.send(b"x" * 200_000)
        # Only what was read is known to have come.
        time.sleep(0.2)
    wait_for("the read to end", lambda: stage.record(), 10)
    assert stage.record()[0].startswith("ClientGone after ")
    with Client(front.port) as client:
        assert client.get("/").body == b"hello"
    assert "Traceback" not in lurcher.err()


def test_a_client_that_stops_is_given_up(stage: Stage, front: FrontEnd) -> None:
    lurcher = start(stage, front, "--threads", "1", "--upload-timeout", "500ms")
    with Client(front.port) as client:
        client.send(b"POST /digest HTTP/1.1\r\nHost: t\r\nContent-Length: 90000\r\n\r\n")
        client.send(b"x" * 50_000)
        assert client.response("POST").status == 408
        client.assert_closed()
    lurcher.wait_for_err("(upload-timeout)")
    wait_for("the read to end", lambda: stage.record(), 10)
    with Client(front.port) as client:
        assert client.get("/").body == b"hello"


def test_too_much_is_refused_at_once_or_as_it_comes(stage: Stage, front: FrontEnd) -> None:
    start(stage, front, "--max-body", "1M")
    with Client(front.port) as client:
        client.send(b"POST /digest HTTP/1.1\r\nHost: t\r\nContent-Length: 1048577\r\n\r\n")
        client.send(b"x" * 5_000)
        assert client.response("POST").status == 413
        client.assert_closed()
    with Client(front.port) as client:
        client.send_request("PUT", "/digest", CHUNKED)
        piece = b"ea60\r\n" + b"x" * 60_000 + b"\r\n"
        with contextlib.suppress(ClosedError):
            for _ in range(40):
                client.send(piece)
        assert client.response("PUT").status == 413
    with Client(front.port) as client:
        answer = client.ask("POST", "/digest", body=b"x" * 1048576)
        assert answer.body.endswith(b" 1048576 1048576")


def test_a_worker_that_dies_in_the_middle(stage: Stage, front: FrontEnd) -> None:
    start(stage, front)
    with Client(front.port) as client:
        client.send(b"POST /die HTTP/1.1\r\nHost: t\r\nContent-Length: 9000000\r\n\r\n")
        client.send(b"x" * 100_000)
        assert client.response("POST").status == 502
        client.assert_closed()
    with Client(front.port) as client:
        assert client.ask("POST", "/digest", body=LINES).body.startswith(DIGEST.encode())


@pytest.mark.parametrize("settings", [{"upload.stream": 1}, {"upload.temp_store": "tmp/u.XXXXXX"}])
def test_a_worker_killed_in_the_middle_of_ten_uploads(
    stage: Stage, settings: dict[str, int | str]
) -> None:
    """Its clients see a cut at once, no file stays, and the next request is served. `make uploads` has large ones."""
    front = stage.mongrel2(settings=settings)
    files = front.directory / "tmp"
    files.mkdir(exist_ok=True)
    options = ["--mongrel2-chroot", str(front.directory), "--threads", "10"]
    lurcher = start(stage, front, *options)
    [worker] = lurcher.wait_for_workers(1)
    clients = [Client(front.port) for _ in range(10)]
    for client in clients:
        client.send_request("POST", "/digest?way=bytes&pause=0.2&note=1", body=LINES[:40_000])
    wait_for("ten readers", lambda: stage.record().count("reads") == 10, 10)
    os.kill(worker, signal.SIGKILL)
    began = time.monotonic()
    for client in clients:
        assert client.response("POST").status == 502
        client.assert_closed()
        client.close()
    assert time.monotonic() - began < 5
    wait_for("the files to be gone", lambda: not list(files.iterdir()), 5)
    with Client(front.port) as client:
        assert client.get("/").body == b"hello"


def test_a_slow_reader_takes_no_more_than_the_window(stage: Stage, front: FrontEnd) -> None:
    start(stage, front, "--upload-window", "64K")
    with Client(front.port) as client:
        client.send(b"POST /digest?way=blocks&pause=1 HTTP/1.1\r\nHost: t\r\n")
        client.send(b"Content-Length: 20000000\r\n\r\n")
        client.socket.settimeout(0.2)
        sent, end = 0, time.monotonic() + 2
        while sent < 20_000_000 and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                sent += client.socket.send(b"x" * 65536)
        # Kernel buffers on both sides take some megabytes; the rest waits at the client.
        assert sent < 14_000_000


def test_a_body_that_is_not_complete_does_not_hold_up_the_end(
    stage: Stage, front: FrontEnd
) -> None:
    """Its parts would go to another instance."""
    lurcher = start(stage, front)
    lurcher.wait_for_err("receiving requests")
    with Client(front.port) as client:
        client.send(b"POST /digest HTTP/1.1\r\nHost: t\r\nContent-Length: 9000000\r\n\r\n")
        client.send(b"x" * 100_000)
        with Client(front.port) as other:
            assert other.get("/").body == b"hello"
        began = time.monotonic()
        assert lurcher.stop() == 0
        assert time.monotonic() - began < 5
        assert client.response("POST").status == 503
        client.assert_closed()


def test_a_shared_handler_is_told_of_and_nobody_waits(stage: Stage, front: FrontEnd) -> None:
    """Parts go to any instance: a stream cannot be put together, but nobody may wait for it."""
    lurchers = [start(stage, front, "--upload-timeout", "2s") for _ in range(2)]
    for lurcher in lurchers:
        lurcher.wait_for_err("receiving requests")
    advised = False
    for _ in range(20):
        began = time.monotonic()
        with Client(front.port) as client:
            client.send_request("POST", "/digest", body=LINES)
            with contextlib.suppress(ClosedError):
                answer = client.response("POST")
                # Now and then all parts go to one of them.
                assert answer.status in (200, 400, 408)
        assert time.monotonic() - began < 10
        advised = any("one instance" in one.err() for one in lurchers)
        if advised:
            break
    assert advised
    for _ in range(4):
        with Client(front.port) as client:
            assert client.get("/").body == b"hello"
