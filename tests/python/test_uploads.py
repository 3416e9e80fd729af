"""Bodies that Mongrel2 puts into files: they reach the application whole, and no file stays."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import pytest
from support.front import PROTOCOLS, FrontEnd
from support.process import Lurcher
from support.rawhttp import Client, ClosedError
from support.stage import Stage
from support.waiting import wait_for

LARGE = hashlib.sha256(b"large").digest() * 40_000
CHUNKED = [("Transfer-Encoding", "chunked")]


@pytest.fixture(params=PROTOCOLS)
def front(stage: Stage, request: pytest.FixtureRequest) -> FrontEnd:
    # A relative path is one below Mongrel2's own directory, as in a chroot.
    return stage.mongrel2(request.param, {"upload.temp_store": "tmp/upload.XXXXXX"})


@pytest.fixture
def lurcher(stage: Stage, front: FrontEnd) -> Lurcher:
    uploads(front).mkdir(exist_ok=True)
    return stage.lurcher(*front.options, "--mongrel2-chroot", str(front.directory))


def uploads(front: FrontEnd) -> Path:
    return front.directory / "tmp"


def no_file_is_left(front: FrontEnd) -> None:
    wait_for("the upload files to be gone", lambda: not list(uploads(front).iterdir()), 10)


def chunks(body: bytes, size: int) -> bytes:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.usefixtures("lurcher")
def test_large_and_chunked_bodies_arrive_whole(front: FrontEnd) -> None:
    with Client(front.port) as client:
        large = client.ask("POST", "/echo", body=LARGE)
        assert (large.status, large.body) == (200, LARGE)
        assert large.header("X-Content-Length") == str(len(LARGE))
        for body in (b"hello", LARGE, b""):
            client.send_request("PUT", "/echo", CHUNKED)
            client.send(chunks(body, 50_000))
            response = client.response("PUT")
            assert (response.status, response.body) == (200, body)
            assert response.header("X-Content-Length") == str(len(body))
        assert client.get("/number/7").body == b"7"
    no_file_is_left(front)


@pytest.mark.usefixtures("lurcher")
def test_what_is_pipelined_behind_a_body_is_no_part_of_it(front: FrontEnd) -> None:
    """Mongrel2 writes it into the file as well."""
    with Client(front.port) as client:
        client.send_request("POST", "/echo", body=LARGE + b"GET /number/1 HTTP/1.1\r\n\r\n")
        client.response("POST")
        client.send(
            b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 30000\r\n\r\n"
            + LARGE[:30_000]
            + b"GET /number/1 HTTP/1.1\r\nHost: t\r\n\r\n"
        )
        assert client.response("POST").body == LARGE[:30_000]
    no_file_is_left(front)


@pytest.mark.usefixtures("lurcher")
def test_a_client_that_leaves_half_way_costs_no_file(front: FrontEnd) -> None:
    with Client(front.port) as client:
        client.send(
            b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 90000\r\n\r\n" + LARGE[:50_000]
        )
        wait_for("the upload to begin", lambda: list(uploads(front).iterdir()), 10)
    no_file_is_left(front)
    with Client(front.port) as client:
        assert client.get("/number/1").body == b"1"


@pytest.mark.usefixtures("lurcher")
def test_a_worker_that_dies_leaves_no_file(front: FrontEnd) -> None:
    with Client(front.port) as client:
        client.send_request("POST", "/die", body=LARGE)
        assert client.response("POST").status == 502
    no_file_is_left(front)


def test_forged_headers_name_no_file(front: FrontEnd, lurcher: Lurcher) -> None:
    """Mongrel2 passes on what a client says about uploads."""
    secret = front.directory / "secret"
    secret.write_text("the secret is 4711")
    names = ("X-Mongrel2-Upload-Start", "X-Mongrel2-Upload-Done")
    begun, both = [(names[0], "secret")], [(name, "secret") for name in names]
    for headers in (begun, both, both[1:]):
        for body in (None, b"", b"small", LARGE):
            with Client(front.port) as client:
                client.send_request("POST", "/echo", begun)
                with contextlib.suppress(ClosedError):
                    client.send_request("POST", "/echo", headers, body)
                assert b"4711" not in client.response("POST").body
            with Client(front.port) as client:
                client.send_request("POST", "/echo", headers, body)
                assert b"4711" not in client.response("POST").body
    assert secret.exists()
    assert lurcher.is_alive()
    no_file_is_left(front)


def test_a_body_over_the_limit_is_refused_early(stage: Stage, front: FrontEnd) -> None:
    uploads(front).mkdir(exist_ok=True)
    options = [*front.options, "--mongrel2-chroot", str(front.directory)]
    lurcher = stage.lurcher(*options, "--max-body", "100K")
    with Client(front.port) as client:
        for body in (b"x" * 20_000, b"x" * 102_400):
            assert client.ask("POST", "/echo", body=body).body == body
        client.send_request("POST", "/echo", CHUNKED)
        client.send(chunks(b"x" * 102_400, 50_000))
        assert client.response("POST").body == b"x" * 102_400
        # Refused when it is announced: the client has not sent a byte of it.
        client.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 102401\r\n\r\n")
        response = client.response("POST")
        assert (response.status, response.header("Connection")) == (413, "close")
        client.assert_closed()
    # Chunks are counted when all are there.
    with Client(front.port) as client:
        client.send_request("POST", "/echo", CHUNKED)
        client.send(chunks(b"x" * 102_401, 50_000))
        assert client.response("POST").status == 413
        client.assert_closed()
    no_file_is_left(front)
    assert "not touched" not in lurcher.err()


def test_an_upload_that_is_not_complete_does_not_hold_up_the_end(
    front: FrontEnd, lurcher: Lurcher
) -> None:
    """Its end would be told to another instance."""
    lurcher.wait_for_err("receiving requests")
    with Client(front.port) as client:
        client.send(
            b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 900000\r\n\r\n" + LARGE[:50_000]
        )
        wait_for("the upload to begin", lambda: list(uploads(front).iterdir()), 10)
        with Client(front.port) as other:
            assert other.get("/number/1").body == b"1"
        assert lurcher.stop() == 0
        assert client.response("POST").status == 503
        client.assert_closed()
    no_file_is_left(front)


def test_a_wrong_chroot_is_told(stage: Stage, front: FrontEnd) -> None:
    uploads(front).mkdir(exist_ok=True)
    lurcher = stage.lurcher(*front.options, "--mongrel2-chroot", str(stage.directory))
    with Client(front.port) as client:
        assert client.ask("POST", "/echo", body=LARGE).status == 500
    lurcher.wait_for_err("is --mongrel2-chroot right?")
    for left in uploads(front).iterdir():
        os.unlink(left)


def directory_options(front: FrontEnd) -> list[str]:
    return [
        *front.options,
        *("--mongrel2-chroot", str(front.directory)),
        *("--upload-trust", "directory", "--upload-dir", str(uploads(front))),
    ]


def test_instances_that_share_a_handler_take_uploads_by_their_directory(
    stage: Stage, front: FrontEnd
) -> None:
    """Beginning and end of a body go to any of them."""
    uploads(front).mkdir(exist_ok=True)
    lurchers = [stage.lurcher(*directory_options(front)) for _ in range(2)]
    for lurcher in lurchers:
        lurcher.wait_for_err("receiving requests")
    for body in (LARGE, LARGE[:30_000]) * 4:
        with Client(front.port) as client:
            assert client.ask("POST", "/echo", body=body).body == body
            client.send_request("PUT", "/echo", CHUNKED)
            client.send(chunks(body, 50_000))
            assert client.response("PUT").body == body
    no_file_is_left(front)
    assert not any("not used" in lurcher.err() for lurcher in lurchers)


def test_without_such_trust_a_shared_handler_is_told_of(stage: Stage, front: FrontEnd) -> None:
    uploads(front).mkdir(exist_ok=True)
    options = [*front.options, "--mongrel2-chroot", str(front.directory)]
    lurchers = [stage.lurcher(*options) for _ in range(2)]
    for lurcher in lurchers:
        lurcher.wait_for_err("receiving requests")
    with Client(front.port) as client:
        assert client.ask("POST", "/echo", body=LARGE).status == 400
        client.assert_closed()
    wait_for(
        "the advice",
        lambda: any("--upload-trust directory" in lurcher.err() for lurcher in lurchers),
        10,
    )


@pytest.mark.parametrize("trick", ["link", "hard link", "elsewhere", "dots", "pipe", "gone"])
def test_no_byte_of_another_file_is_served_or_removed(stage: Stage, trick: str) -> None:
    """A front end that lies, as Mongrel2 would not: all that is left of the guard is the directory."""
    place = stage.directory / "uploads"
    place.mkdir(mode=0o755)
    secret = stage.directory / "secret.abcdef"
    secret.write_text("the secret is 4711" * 2000)
    named = place / "upload.abcdef"
    if trick == "link":
        named.symlink_to(secret)
    elif trick == "hard link":
        named.hardlink_to(secret)
    elif trick == "elsewhere":
        named = secret
    elif trick == "dots":
        named = place / ".." / "secret.abcdef"
    elif trick == "pipe":
        os.mkfifo(named)
    front = stage.fake()
    lurcher = stage.lurcher(
        *front.options, "--upload-trust", "directory", "--upload-dir", str(place)
    )
    path = str(named).encode()
    headers = {b"x-mongrel2-upload-start": path, b"x-mongrel2-upload-done": path}
    front.request(1, "/echo", "POST", {b"content-length": b"36000", **headers})
    answer, closed = front.collect(1)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert closed
    assert b"4711" not in answer
    lurcher.wait_for_err("is not used: ")
    assert secret.exists()
    assert trick == "gone" or os.path.lexists(named)
