"""What a Flask application does, asked with `requests` through the real Mongrel2 and through `lurcher serve`."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from support.behind import behind
from support.waiting import wait_for

MB = 1024 * 1024
SECONDS = 30


class Session(requests.Session):
    """Knows the address."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base

    def request(self, method: str, url: str, *args: Any, **more: Any) -> Any:
        more.setdefault("timeout", SECONDS)
        return super().request(method, self.base + url, *args, **more)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, front_end: str) -> Iterator[str]:
    env = {"FLASK_SITE_FILES": str(tmp_path_factory.mktemp("files"))}
    site = behind(front_end, tmp_path_factory.mktemp("site"), "flask_site:application", env=env)
    yield site.base
    site.end()


@pytest.fixture
def web(base: str) -> Iterator[Session]:
    with Session(base) as session:
        yield session


def test_the_url_and_the_client(web: Session, base: str) -> None:
    assert web.get("/").text == f"{base}/ 127.0.0.1 False"


def test_streaming_with_the_requests_context(web: Session) -> None:
    assert web.get("/stream").text == "".join(f"data: /stream {n}\n\n" for n in range(5))


def test_the_first_event_comes_before_the_last(web: Session) -> None:
    began = time.monotonic()
    with web.get("/stream?count=4&pause=0.5", stream=True) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        next(response.iter_lines())
        assert time.monotonic() - began < 1


def test_a_client_that_goes_away_ends_its_stream(web: Session) -> None:
    before = web.get("/ended").json()
    with web.get("/stream?count=100000&pause=0.01", stream=True) as response:
        next(response.iter_lines())
    wait_for("the end of the stream", lambda: web.get("/ended").json() > before, 5)


def test_upload_and_download(web: Session, tmp_path: Path) -> None:
    data = os.urandom(5 * MB)
    response = web.post("/files", files={"file": ("a b.bin", data)}, allow_redirects=False)
    assert (response.status_code, response.headers["Location"]) == (303, "/files/a%20b.bin")
    got = web.get("/files/a%20b.bin")
    assert got.content == data
    assert got.headers["Content-Disposition"].startswith("attachment")
    assert got.headers["Content-Length"] == str(len(data))
    same = web.get("/files/a%20b.bin", headers={"If-None-Match": got.headers["ETag"]})
    assert (same.status_code, same.content) == (304, b"")
    part = web.get("/files/a%20b.bin", headers={"Range": "bytes=1000-1999"})
    assert (part.status_code, part.content) == (206, data[1000:2000])
    assert part.headers["Content-Range"] == f"bytes 1000-1999/{len(data)}"
    last = web.get("/files/a%20b.bin", headers={"Range": "bytes=-7"})
    assert (last.status_code, last.content) == (206, data[-7:])
    beyond = web.get("/files/a%20b.bin", headers={"Range": f"bytes={len(data) + 1}-"})
    assert beyond.status_code == 416
    head = web.head("/files/a%20b.bin")
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(data)))


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("size", [0, 1, 20 * MB])
def test_bodies_are_read_as_a_stream(web: Session, method: str, size: int) -> None:
    data = os.urandom(size)
    shown = web.request(method, "/digest", data=data).json()
    assert (shown["digest"], shown["size"]) == (hashlib.sha256(data).hexdigest(), size)


@pytest.mark.parametrize("size", [0, 1, 20 * MB])
def test_bodies_in_chunks(web: Session, size: int) -> None:
    data = os.urandom(size)
    parts = (data[at : at + 100_000] for at in range(0, size, 100_000))
    shown = web.post("/digest", data=parts).json()
    assert (shown["digest"], shown["size"]) == (hashlib.sha256(data).hexdigest(), size)


def test_a_body_over_the_applications_limit(web: Session) -> None:
    response = web.post("/files", files={"file": ("big", bytes(33 * MB))})
    assert response.status_code == 413
    assert web.get("/").status_code == 200


def test_cookies_and_the_session(web: Session) -> None:
    response = web.get("/login")
    assert len(response.raw.headers.getlist("Set-Cookie")) == 6
    shown = web.get("/who").json()
    assert shown["who"] == "caf\u00e9"
    assert {shown["cookies"][f"c{n}"] for n in range(5)} == {f"v{n}" for n in range(5)}


def test_request_headers(web: Session) -> None:
    shown = dict(web.get("/headers", headers={"X-Latin": b"caf\xe9", "X-A": "1"}).json())
    assert (shown["X-Latin"], shown["X-A"]) == ("caf\u00e9", "1")


def test_the_query_as_it_is(web: Session) -> None:
    shown = web.get("/query?a=%2F+b&a=%C3%A9&c").json()
    assert shown == {"raw": "a=%2F+b&a=%C3%A9&c", "parsed": {"a": ["/ b", "\u00e9"], "c": [""]}}


def test_forms_and_json(web: Session) -> None:
    assert web.post("/form", data={"a": ["1", "2"], "b": "\u00e9"}).json() == {
        "a": ["1", "2"],
        "b": ["\u00e9"],
    }
    assert web.post("/json", json={"a": ["\u00e9", None]}).json() == {"a": ["\u00e9", None]}


def test_an_error(web: Session) -> None:
    response = web.get("/fails")
    assert response.status_code == 500
    assert "Internal Server Error" in response.text


def test_an_error_in_the_middle_is_no_whole_answer(web: Session) -> None:
    try:
        # Our own front end may have got the end of it before it has sent a byte.
        assert web.get("/fails-late").status_code == 502
    except requests.exceptions.ChunkedEncodingError:
        return


def test_methods(web: Session) -> None:
    assert web.get("/nothing").status_code == 204
    wrong = web.get("/form")
    assert (wrong.status_code, set(wrong.headers["Allow"].split(", "))) == (
        405,
        {"OPTIONS", "POST"},
    )
    assert "GET" in web.options("/").headers["Allow"]
    assert web.head("/").content == b""
    assert web.get("/not-there").status_code == 404


def test_four_at_once(web: Session) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        texts = list(
            pool.map(lambda _: requests.get(web.base + "/slow", timeout=SECONDS).text, range(4))
        )
    assert texts == ["slow"] * 4
    assert time.monotonic() - began < 1.5
