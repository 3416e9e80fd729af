"""httpbin behind the real Mongrel2 and `lurcher serve`, asked with `requests`: what its pages promise must hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from support.behind import behind

SECONDS = 30


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, front_end: str) -> Iterator[str]:
    site = behind(front_end, tmp_path_factory.mktemp("site"), "httpbin:app")
    yield site.base
    site.end()


@pytest.fixture
def web(base: str) -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_methods(web: requests.Session, base: str, method: str) -> None:
    url = f"{base}/{method.lower()}?a=1&a=2&b=%C3%A9"
    body = None if method == "GET" else "\u00e9 body".encode()
    shown = web.request(method, url, data=body, headers={"X-A": "b"}, timeout=SECONDS).json()
    assert shown["args"] == {"a": ["1", "2"], "b": "\u00e9"}
    assert shown["headers"]["X-A"] == "b"
    assert shown["origin"] == "127.0.0.1"
    assert shown["url"].startswith(base)
    if body is not None:
        assert shown["data"] == "\u00e9 body"


@pytest.mark.parametrize(
    "method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"]
)
def test_anything(web: requests.Session, base: str, method: str) -> None:
    response = web.request(method, f"{base}/anything/x/y", timeout=SECONDS)
    if method in ("HEAD", "OPTIONS"):
        assert (response.status_code, response.content) == (200, b"")
    else:
        assert response.json()["method"] == method


def test_forms_files_and_json(web: requests.Session, base: str) -> None:
    shown = web.post(
        f"{base}/post", data={"a": ["1", "2"]}, files={"f": ("n.txt", b"content")}, timeout=SECONDS
    ).json()
    assert (shown["form"], shown["files"]) == ({"a": ["1", "2"]}, {"f": "content"})
    assert web.post(f"{base}/post", json={"x": [1]}, timeout=SECONDS).json()["json"] == {"x": [1]}


@pytest.mark.parametrize(
    "status", [200, 201, 202, 204, 206, 300, 304, 400, 401, 404, 405, 406, 418, 429, 500, 502, 503]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST"])
def test_statuses(web: requests.Session, base: str, status: int, method: str) -> None:
    # On one connection, so that a body too many would spoil the next answer.
    for _ in range(2):
        response = web.request(
            method, f"{base}/status/{status}", allow_redirects=False, timeout=SECONDS
        )
        assert response.status_code == status


@pytest.mark.parametrize("path", ["/redirect/5", "/relative-redirect/5", "/absolute-redirect/5"])
def test_redirects(web: requests.Session, base: str, path: str) -> None:
    response = web.get(base + path, timeout=SECONDS)
    assert (response.status_code, len(response.history)) == (200, 5)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "brotli"])
def test_content_codings(web: requests.Session, base: str, coding: str) -> None:
    response = web.get(f"{base}/{coding}", timeout=SECONDS, headers={"Accept-Encoding": coding})
    assert response.status_code == 200
    if coding != "brotli":
        assert response.json()[{"gzip": "gzipped", "deflate": "deflated"}[coding]] is True


def test_cookies(web: requests.Session, base: str) -> None:
    web.get(f"{base}/cookies/set?a=1&b=2&c=3", timeout=SECONDS)
    assert web.get(f"{base}/cookies", timeout=SECONDS).json()["cookies"] == {
        "a": "1",
        "b": "2",
        "c": "3",
    }
    web.get(f"{base}/cookies/delete?a", timeout=SECONDS)
    assert web.get(f"{base}/cookies", timeout=SECONDS).json()["cookies"] == {"b": "2", "c": "3"}


def test_logins(web: requests.Session, base: str) -> None:
    for who, status in ((("u", "p"), 200), (("u", "wrong"), 401)):
        assert web.get(f"{base}/basic-auth/u/p", auth=who, timeout=SECONDS).status_code == status
    digest = requests.auth.HTTPDigestAuth("u", "p")
    assert web.get(f"{base}/digest-auth/auth/u/p", auth=digest, timeout=SECONDS).status_code == 200
    bearer = web.get(f"{base}/bearer", headers={"Authorization": "Bearer t"}, timeout=SECONDS)
    assert bearer.json()["token"] == "t"


@pytest.mark.parametrize("count", [1, 20, 100])
def test_streams(web: requests.Session, base: str, count: int) -> None:
    with web.get(f"{base}/stream/{count}", stream=True, timeout=SECONDS) as response:
        lines: list[Any] = [json.loads(line) for line in response.iter_lines()]
    assert [line["id"] for line in lines] == list(range(count))


@pytest.mark.parametrize("size", [0, 1, 1024, 100 * 1024])
def test_bytes(web: requests.Session, base: str, size: int) -> None:
    whole = web.get(f"{base}/bytes/{size}?seed=1", timeout=SECONDS)
    assert (len(whole.content), whole.headers["Content-Length"]) == (size, str(size))
    streamed = web.get(f"{base}/stream-bytes/{size}?seed=1", timeout=SECONDS)
    assert streamed.content == whole.content


def test_ranges(web: requests.Session, base: str) -> None:
    whole = web.get(f"{base}/range/1024", timeout=SECONDS).content
    assert len(whole) == 1024
    part = web.get(f"{base}/range/1024", headers={"Range": "bytes=10-19"}, timeout=SECONDS)
    assert (part.status_code, part.content) == (206, whole[10:20])


def test_drip(web: requests.Session, base: str) -> None:
    url = f"{base}/drip?duration=0.3&numbytes=5&code=200"
    assert web.get(url, timeout=SECONDS).content == b"*" * 5


def test_conditions(web: requests.Session, base: str) -> None:
    assert web.get(f"{base}/cache", timeout=SECONDS).status_code == 200
    for header in ("If-None-Match", "If-Modified-Since"):
        assert web.get(f"{base}/cache", headers={header: "x"}, timeout=SECONDS).status_code == 304
    tag = web.get(f"{base}/etag/t", headers={"If-None-Match": '"t"'}, timeout=SECONDS)
    assert tag.status_code == 304
    unmet = web.get(f"{base}/etag/t", headers={"If-Match": '"u"'}, timeout=SECONDS)
    assert unmet.status_code == 412


def test_response_headers(web: requests.Session, base: str) -> None:
    url = f"{base}/response-headers?X-One=1&X-Two=2&X-Two=3"
    response = web.get(url, timeout=SECONDS)
    assert response.headers["X-One"] == "1"
    assert response.raw.headers.getlist("X-Two") == ["2", "3"]


@pytest.mark.parametrize(
    "path", ["/encoding/utf8", "/html", "/xml", "/robots.txt", "/image/png", "/links/10/0"]
)
def test_pages(web: requests.Session, base: str, path: str) -> None:
    response = web.get(base + path, timeout=SECONDS)
    assert response.status_code == 200
    assert len(response.content) > 0
