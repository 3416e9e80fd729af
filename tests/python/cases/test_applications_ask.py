"""What widely used applications ask of a WSGI server, one test or more for each point, through the real Mongrel2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.process import Lurcher
from support.rawhttp import Client, ClosedError, Response, ask
from support.served import Served
from support.stage import Stage
from support.waiting import wait_for

DATA = bytes(range(256)) * 1000


@dataclass
class Site:
    port: int
    lurcher: Lurcher

    def get(self, target: str, *headers: tuple[str, str]) -> Response:
        return ask(self.port, "GET", target, headers)

    def post(self, target: str, body: bytes) -> Response:
        return ask(self.port, "POST", target, body=body)

    def closed(self) -> list[str]:
        found: list[str] = self.get("/closed").json()
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    stage = Stage(tmp_path_factory.mktemp("site"))
    front = stage.mongrel2()
    yield Site(front.port, stage.lurcher(*front.options, app="asks:app"))
    stage.clear_away()


@pytest.fixture
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    stage = Stage(tmp_path_factory.mktemp("fake"))
    yield Served(stage, "asks:app")
    stage.clear_away()


def test_01_the_input_can_be_rewound_after_it_was_read(site: Site) -> None:
    for body in (b"", b"abc", b"x" * 20_000):
        assert site.post("/rewind", body).json() == [body.decode()] * 3


def test_02_the_environ_is_a_builtin_dict(site: Site) -> None:
    assert site.get("/strict").status == 200


def test_03_values_of_cgi_keys_are_strings(site: Site) -> None:
    assert site.get("/strict").json() == {}
    assert site.post("/strict", b"with a length").json() == {}
    assert site.post("/strict", b"").json() == {}


def test_04_a_chunked_body_is_read(fake: Served) -> None:
    body = b"a=1&b=2"
    assert fake.ask("/form", "POST", body=body, chunked=True).json() == "a=1&b=2"
    assert fake.ask("/form", "POST", body=body).json() == "a=1&b=2"
    assert fake.ask("/form").json() == ""


def test_05_write_from_inside_the_generator(site: Site) -> None:
    assert site.get("/write-inside").body == b"one,two,three,four"


def test_05_pages_by_write_alone_and_error_pages_with_exc_info(site: Site) -> None:
    assert site.get("/write-only").body == b"01234"
    response = site.get("/write-only?error")
    assert (response.status, response.body) == (404, b"no such ticket")
    assert response.header("X-Error") == "1"


def test_06_start_response_after_the_call(site: Site) -> None:
    response = site.get("/late")
    assert (response.status, response.header("X-Late"), response.body) == (207, "1", b"late")


@pytest.mark.parametrize("kind", ["tuple", "list", "iterator"])
def test_07_empty_blocks_end_nothing(site: Site, kind: str) -> None:
    with Client(site.port) as client:
        for _ in range(2):
            assert client.get(f"/empty-blocks?{kind}").body == b"body"


@pytest.mark.parametrize("kind", ["all-empty", "one-empty"])
def test_07_bodies_of_empty_blocks_only(site: Site, kind: str) -> None:
    with Client(site.port) as client:
        for _ in range(2):
            response = client.get(f"/empty-blocks?{kind}")
            assert (response.status, response.body) == (200, b"")


def test_08_repeated_response_headers_stay_apart(site: Site) -> None:
    response = site.get("/repeated")
    assert response.all("Set-Cookie") == [f"auth={number}; Path=/{number}" for number in range(3)]
    assert response.all("Link") == [f"</{number}>; rel=next" for number in range(7)]


@pytest.mark.parametrize("names", ["Server,Date", "Server", "Date", ""])
def test_09_own_server_and_date_are_kept_and_none_added(site: Site, names: str) -> None:
    response = site.get(f"/own-headers?{names}")
    # header() fails if one is there twice.
    server, date = response.header("Server"), response.header("Date")
    assert server is not None
    assert date is not None
    assert server.endswith(" mine/1") is ("Server" in names)
    assert (date == "Thu, 01 Jan 1970 00:00:00 GMT") is ("Date" in names)


@pytest.mark.parametrize(
    ("kind", "status", "framing", "body"),
    [
        ("page", 200, "chunked", b"page"),
        ("block", 200, "length", b"page"),
        ("201", 201, "any", b""),
        ("302", 302, "chunked", b"moved"),
        ("304", 304, "none", b""),
    ],
)
def test_10_pages_without_a_length(
    site: Site, kind: str, status: int, framing: str, body: bytes
) -> None:
    with Client(site.port) as client:
        response = client.get(f"/no-length?{kind}")
        assert (response.status, response.body) == (status, body)
        assert framing in ("any", response.framing)
        assert response.framing != "close"
        if status == 304:
            assert response.header("Content-Length") is None
        # The connection goes on.
        assert client.get("/late").status == 207


@pytest.mark.parametrize("kind", ["reader", "field", "reads", "memory", "resource"])
def test_11_files_of_every_kind(site: Site, kind: str) -> None:
    site.closed()
    response = site.get(f"/file?{kind}")
    assert response.body == DATA
    if kind in ("field", "reads", "resource"):
        assert site.closed() == ["file"]


@pytest.mark.parametrize("kind", ["position", "range-of-reads", "range-wrapper"])
def test_11_a_part_of_a_file(site: Site, kind: str) -> None:
    response = site.get(f"/file?{kind}")
    assert (response.status, response.body) == (206, DATA[100:1000])


@pytest.mark.parametrize("size", [0, 1, 100, 19_999])
def test_12_the_input_is_read_in_another_thread(site: Site, size: int) -> None:
    assert site.post("/read-elsewhere", b"x" * size).json() == size


def test_13_what_zope_makes_of_the_environ(site: Site) -> None:
    assert site.get("/zope/caf%C3%A9").json() == ["1.1", 80, "/zope/caf\u00e9"]
    shown = site.get("/zope/x", ("Host", "example.org:8080")).json()
    assert shown == ["1.1", 8080, "/zope/x"]


def test_13_a_path_that_is_no_utf8_raises_in_the_application(site: Site) -> None:
    assert site.get("/zope/%FF").status == 500
    site.lurcher.wait_for_err("UnicodeDecodeError")
    assert site.get("/zope/x").status == 200


@pytest.mark.parametrize("how", ["", "length"])
def test_14_a_client_that_goes_away_has_its_iterable_closed(site: Site, how: str) -> None:
    site.closed()
    with Client(site.port) as client:
        client.send_request("GET", f"/stream?{how}")
        client.until(b"block\n")
    wait_for("the close", lambda: "stream" in site.closed(), 5)


@pytest.mark.parametrize("how", ["fail", "fail,length"])
def test_14_an_error_after_the_first_block_is_no_whole_answer(site: Site, how: str) -> None:
    site.closed()
    with pytest.raises(ClosedError):
        site.get(f"/stream?{how}")
    assert site.closed() == ["stream"]


def test_15_repeated_request_headers_are_joined(site: Site) -> None:
    shown = site.get("/headers", ("X-Two", "a"), ("X-Two", "b"), ("Accept", "c/d")).json()
    assert shown["HTTP_X_TWO"] == "a, b"
    assert shown["HTTP_ACCEPT"] == "c/d"


def test_16_it_is_loaded_in_the_process_that_serves(site: Site) -> None:
    """Threads, locks and connections made at import belong to that process; and by default there is one."""
    loaded_by, pid, started, multiprocess = site.get("/process").json()
    assert loaded_by == pid != site.lurcher.pid
    assert started == ["ran"]
    assert multiprocess is False
    assert site.lurcher.worker_pids() == [pid]


def test_16_also_one_of_several(tmp_path_factory: pytest.TempPathFactory) -> None:
    stage = Stage(tmp_path_factory.mktemp("several"))
    site = Served(stage, "asks:app", ["--workers", "2", "--threads", "1"])
    site.lurcher.wait_for_workers(2)
    shown: list[Any] = [site.answer(conn).json() for conn in [site.send("/process")] * 4]
    for loaded_by, pid, started, multiprocess in shown:
        assert loaded_by == pid
        assert started == ["ran"]
        assert multiprocess is True
    stage.clear_away()
