"""wsgi.input: every way of reading it, its end, its length, and what becomes of it after the request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.front import PROTOCOLS, FrontEnd
from support.rawhttp import Client, ClosedError
from support.served import Served
from support.stage import Stage


@pytest.fixture(scope="module", params=PROTOCOLS)
def fake(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Behind a made-up front end."""
    stage = Stage(tmp_path_factory.mktemp("fake"))
    yield Served(stage, "inputs:app", protocol=request.param)
    stage.clear_away()


@dataclass
class Site:
    front: FrontEnd

    def client(self) -> Client:
        return Client(self.front.port)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Behind the real Mongrel2."""
    stage = Stage(tmp_path_factory.mktemp("site"))
    front = stage.mongrel2()
    stage.lurcher(*front.options, app="inputs:app")
    yield Site(front)
    stage.clear_away()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Behind the real Mongrel2, which puts into files what is large or comes in chunks."""
    stage = Stage(tmp_path_factory.mktemp("files"))
    front = stage.mongrel2(settings={"upload.temp_store": "tmp/upload.XXXXXX"})
    (front.directory / "tmp").mkdir(exist_ok=True)
    stage.lurcher(*front.options, "--mongrel2-chroot", str(front.directory), app="inputs:app")
    yield Site(front)
    assert list((front.directory / "tmp").iterdir()) == []
    stage.clear_away()


def chunked(body: bytes, size: int) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def chunked_post(target: str, body: bytes, coding: str = "chunked", size: int = 3) -> bytes:
    head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: {coding}\r\n\r\n"
    return head.encode() + chunked(body, size)


def status_or_close(client: Client) -> int | None:
    """The status of the response, or None if the connection is closed without a byte of one."""
    try:
        return client.response().status
    except ClosedError as closed:
        if closed.got:
            raise
        return None


LINES = b"one\ntwo\n\nfour"
# Way of reading, what it gives for LINES.
WAYS: list[tuple[str, list[Any]]] = [
    ("read", ["one\ntwo\n\nfour"]),
    ("read:-1", ["one\ntwo\n\nfour"]),
    ("read:0,read:2,read:1000", ["", "on", "e\ntwo\n\nfour"]),
    ("readline", ["one\n"]),
    ("readline:2,readline:2,readline:-1", ["on", "e\n", "two\n"]),
    ("readline:0", [""]),
    ("readline,readline,readline,readline,readline", ["one\n", "two\n", "\n", "four", ""]),
    ("readlines", [["one\n", "two\n", "\n", "four"]]),
    ("readlines:5,readlines", [["one\n", "two\n"], ["\n", "four"]]),
    ("iterate,read", [["one\n", "two\n", "\n", "four"], ""]),
    ("read:5,iterate", ["one\nt", ["wo\n", "\n", "four"]]),
    ("read,read,read:10,readline,readlines", ["one\ntwo\n\nfour", "", "", "", []]),
    ("read:9,readinto:10,readinto:3", ["one\ntwo\n\n", [4, "four......"], [0, "..."]]),
]


@pytest.mark.parametrize(("way", "gives"), WAYS, ids=[way for way, _ in WAYS])
def test_i01_i02_every_way_of_reading_ends_with_the_body(
    fake: Served, way: str, gives: list[Any]
) -> None:
    for coded in (False, True):
        for path in ("/read", "/read-elsewhere"):
            answer = fake.ask(f"{path}?{way}", "POST", body=LINES, chunked=coded)
            assert answer.json() == gives, (path, coded)
            assert not answer.closed


@pytest.mark.parametrize(
    "way", ["read", "read:-1", "readline", "readlines", "read:2", "iterate", "readinto:4"]
)
def test_i02_an_empty_body_ends_at_once(fake: Served, way: str) -> None:
    nothing = {"readlines": [], "iterate": [], "readinto:4": [0, "...."]}.get(way, "")
    for options in ({}, {"method": "POST"}, {"method": "POST", "chunked": True}):
        assert fake.ask(f"/read?{way}", **options).json() == [nothing]


@pytest.mark.parametrize("way", ["read", "readline", "readlines", "read:2"])
def test_i01_reads_end_while_the_connection_stays(site: Site, way: str) -> None:
    """The client waits for the answer and keeps its connection; the next request on it is a request."""
    gives = {"read": "abcde", "readline": "abcde", "readlines": ["abcde"], "read:2": "ab"}[way]
    with site.client() as client:
        for _ in range(2):
            assert client.ask("POST", f"/read?{way}", body=b"abcde").json() == [gives]
        assert client.get("/runs").status == 200


@pytest.mark.parametrize(("way", "gives"), WAYS, ids=[way for way, _ in WAYS])
def test_i01_chunks_smaller_than_a_read(files: Site, way: str, gives: list[Any]) -> None:
    """Sent three bytes a chunk, on a connection that stays."""
    with files.client() as client:
        for path in ("/read", "/read-elsewhere"):
            client.send(chunked_post(f"{path}?{way}", LINES))
            assert client.response().json() == gives
        assert client.get("/runs").status == 200


def test_i03_i04_chunked_through_mongrel2(files: Site) -> None:
    with files.client() as client:
        for body in (b"", b"0123456789", b"x" * 100_000):
            client.send(chunked_post("/terminated", body, size=1000))
            terminated, length, coding, size = client.response().json()
            assert (terminated, coding, size) == ("True", "absent", len(body))
            assert length == str(len(body)) or (length, body) == ("absent", b"")


@pytest.mark.parametrize("body", [b"{}", b"GET /x HTTP/1.1\r\n\r\n" * 2000])
@pytest.mark.parametrize("coded", [True, False])
def test_i05_an_unread_file_is_no_next_request(files: Site, coded: bool, body: bytes) -> None:
    """One kind a connection: after a chunked body Mongrel2 1.12 never sees the end of one with a length in a file."""
    with files.client() as client:
        for _ in range(3):
            if coded:
                client.send(chunked_post("/ignore", body, size=500))
            else:
                client.send_request("POST", "/ignore", body=body)
            assert client.response().json() == "not read"
            assert client.get("/terminated").json() == ["True", "absent", "absent", 0]


def test_i06_i13_a_body_in_a_file_is_read_as_any_other(files: Site) -> None:
    body = bytes(range(256)) * 400
    with files.client() as client:
        way = "read:70000,tell,read:70000,read,seek:0,read:2,tell,seek:102396,readinto:10,bool"
        head = f"POST /read?{way} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        for part in (head.encode(), body[:5000], body[5000:70_000], body[70_000:]):
            client.send(part)
        got = client.response().json()
        assert (got[0] + got[2]).encode("latin-1") == body
        assert got[1] == len(got[0]) == 70_000
        assert got[3:8] == ["", 0, "\0\x01", 2, 102_396]
        assert got[8:] == [[4, "\xfc\xfd\xfe\xff......"], True]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_kept_file_raises(files: Site, where: str) -> None:
    with files.client() as client:
        client.send(chunked_post("/keep", b"abc"))
        assert client.response().json() == "kept"
        raised = client.get(f"/use-kept?{where}").json()
        # Also a ValueError, of what can only be read.
        assert set(raised.values()) <= {"ValueError", "UnsupportedOperation"}, raised


def test_i13_the_application_may_close_a_file(files: Site) -> None:
    with files.client() as client:
        for _ in range(3):
            client.send(chunked_post("/close", b"abc"))
            assert client.response().json() == "closed"


def test_i02_reading_on_never_reaches_the_next_request(site: Site) -> None:
    with site.client() as client:
        post = b"POST /read?read,read,read:10,readline HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
        client.send(post + b"GET /terminated HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.response().json() == ["abc", "", "", ""]
        assert client.response().json() == ["True", "absent", "absent", 0]


def test_i03_a_chunked_body_is_whole_and_has_a_length(fake: Served) -> None:
    expected = ["True", "10", "absent", 10]
    assert fake.ask("/terminated", "POST", body=b"0123456789", chunked=True).json() == expected


def test_i03_where_mongrel2_takes_no_uploads_a_chunked_body_is_refused(site: Site) -> None:
    """It has no other place for one; what counts is that nobody reads an empty body."""
    before = site_runs(site)
    with site.client() as client:
        client.send(chunked_post("/terminated", b"0123456789"))
        # The refusal may be lost in the reset of a connection that still had bytes unread.
        assert status_or_close(client) in (413, None)
    assert site_runs(site) == before + 1


@pytest.mark.parametrize("coding", ["Chunked", "CHUNKED", "gzip, chunked", "chunked, gzip", "gzip"])
def test_i03_other_codings_are_refused_not_emptied(fake: Served, site: Site, coding: str) -> None:
    """Mongrel2 knows `chunked` in this spelling only; of any other it takes the body for further requests."""
    before = fake.ask("/runs").json()
    answer = fake.ask("/terminated", "POST", {b"transfer-encoding": coding.encode()})
    assert (answer.status, answer.closed) == (501, True)
    assert fake.ask("/runs").json() == before + 1
    with site.client() as client:
        client.send(chunked_post("/terminated", b"0123456789", coding))
        assert client.response().status in (400, 501)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["True", "absent", "absent", 0]),
        ({"method": "POST", "headers": {b"content-length": b"0"}}, ["True", "0", "absent", 0]),
        ({"method": "POST", "body": b"abc"}, ["True", "3", "absent", 3]),
        ({"method": "GET", "body": b"abc"}, ["True", "3", "absent", 3]),
        ({"method": "DELETE", "body": b"abc", "chunked": True}, ["True", "3", "absent", 3]),
        ({"method": "POST", "chunked": True}, ["True", "0", "absent", 0]),
    ],
    ids=["get", "length-0", "length", "get-with-body", "chunked", "chunked-empty"],
)
def test_i04_the_input_always_ends_by_itself(
    fake: Served, options: dict[str, Any], expected: list[Any]
) -> None:
    got = fake.ask("/terminated", **options).json()
    if options.get("chunked") and not options.get("body"):
        # An empty body that came in chunks: no length and a length of nothing say the same.
        assert got[1] in ("absent", "0")
        got[1] = expected[1]
    assert got == expected


@pytest.mark.parametrize("body", [b"{}", b"GET /x HTTP/1.1\r\n\r\n", b"x" * 9000])
def test_i05_an_unread_body_is_no_next_request(site: Site, body: bytes) -> None:
    with site.client() as client:
        for _ in range(3):
            assert client.ask("POST", "/ignore", body=body).json() == "not read"
            assert client.get("/terminated").json() == ["True", "absent", "absent", 0]


def test_i06_a_body_that_came_in_pieces_is_read_as_one(site: Site) -> None:
    # Mongrel2 passes on at once no body larger than limits.content_length, 20480.
    body = bytes(range(256)) * 78
    with site.client() as client:
        head = f"POST /read?read:15000,read:15000 HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        for part in (head.encode(), body[:5000], body[5000:12000], body[12000:]):
            client.send(part)
        first, second = client.response().json()
    assert (len(first), len(second)) == (15000, len(body) - 15000)
    assert (first + second).encode("latin-1") == body


def test_i06_a_large_body(fake: Served) -> None:
    body = bytes(range(256)) * 400
    first, second = fake.ask("/read?read:70000,read:70000", "POST", body=body).json()
    assert (len(first), len(second)) == (70000, len(body) - 70000)
    assert (first + second).encode("latin-1") == body


LENGTHS = [
    b"-1",
    b"+5",
    b"5,5",
    b"5, 5",
    b"5 5",
    b"0x5",
    b"",
    b"5.0",
    b"\xb2",
    b"99999999999999999999",
    b"18446744073709551621",
    [b"5", b"5"],
    [b"5", b"6"],
]


@pytest.mark.parametrize("length", LENGTHS, ids=repr)
def test_i08_a_length_that_is_no_number_is_refused(
    fake: Served, length: bytes | list[bytes]
) -> None:
    before = fake.ask("/runs").json()
    answer = fake.ask("/terminated", "POST", {b"content-length": length}, body=b"12345")
    assert (answer.status, answer.closed) == (400, True)
    assert fake.ask("/runs").json() == before + 1


@pytest.mark.parametrize("length", ["-1", "+5", "5,5", "0x5", "", "99999999999999999999"])
def test_i08_nor_does_one_pass_through_mongrel2(site: Site, length: str) -> None:
    """Refused by either of the two, or the connection is closed; the number of bytes is never guessed."""
    with site.client() as client:
        client.send(
            f"POST /terminated HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n12345".encode()
        )
        assert status_or_close(client) in (400, 413, 501, None)
    with site.client() as client:
        assert client.get("/terminated").status == 200


@pytest.mark.parametrize("length", [b"0", b"4", b"6", b"10"])
def test_i09_a_body_of_another_length_is_refused(fake: Served, length: bytes) -> None:
    before = fake.ask("/runs").json()
    answer = fake.ask("/terminated", "POST", {b"content-length": length}, body=b"12345")
    assert (answer.status, answer.closed) == (400, True)
    assert fake.ask("/runs").json() == before + 1


def test_i09_a_client_that_stops_in_the_middle_runs_nothing(site: Site) -> None:
    before = site_runs(site)
    with site.client() as client:
        client.send(b"POST /terminated HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nA")
        client.socket.shutdown(1)
        assert status_or_close(client) in (400, None)
    assert site_runs(site) == before + 1


def site_runs(site: Site) -> int:
    with site.client() as client:
        number: int = client.get("/runs").json()
        return number


@pytest.mark.parametrize("how", ["", "?all"])
def test_i10_the_environ_is_the_applications(fake: Served, how: str) -> None:
    answer = fake.ask(f"/spoil{how}", "POST", body=b"abc")
    assert (answer.status, answer.json(), answer.closed) == (200, "spoilt", False)
    # What was taken out of the environ ends with the request all the same.
    assert set(fake.ask("/use-kept").json().values()) == {"ValueError"}


@pytest.mark.parametrize("body", [b"", b"abc"])
def test_i12_the_input_is_always_true(fake: Served, body: bytes) -> None:
    text = body.decode()
    assert fake.ask("/read?bool,read,bool", "POST", body=body).json() == [True, text, True]


def test_i13_seek_and_tell(fake: Served) -> None:
    way = "seekable,read:2,tell,seek:0,tell,read,tell,seek:1,readline"
    expected = [True, "ab", 2, 0, 0, "abcd", 4, 1, "bcd"]
    assert fake.ask(f"/read?{way}", "POST", body=b"abcd").json() == expected


def test_i13_the_application_may_close_it(fake: Served) -> None:
    for _ in range(3):
        answer = fake.ask("/close", "POST", body=b"abc")
        assert (answer.json(), answer.closed) == ("closed", False)
    assert fake.ask("/read?read", "POST", body=b"next").json() == ["next"]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("body", [b"", b"abc"])
def test_a_kept_input_raises(fake: Served, where: str, body: bytes) -> None:
    fake.ask("/keep", "POST", body=body)
    raised = fake.ask(f"/use-kept?{where}", "POST", body=b"of another request").json()
    assert set(raised.values()) == {"ValueError"}, raised


def test_a_kept_input_whose_memory_is_in_use(fake: Served) -> None:
    """It cannot be closed, and shows its own request's body only; the requests go on."""
    answer = fake.ask("/keep?exported", "POST", body=b"abc")
    assert (answer.status, json.loads(answer.body)) == (200, "kept")
    raised = fake.ask("/use-kept", "POST", body=b"of another request").json()
    assert "another" not in json.dumps(raised)
    assert fake.ask("/read?read", "POST", body=b"next").json() == ["next"]
