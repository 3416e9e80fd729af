"""httplint's opinion of responses of `lurcher serve`: an application's, and those that the front end makes itself."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from httplint import HttpResponseLinter
from support.behind import behind
from support.rawhttp import Client

LAST = "Host: localhost\r\nConnection: close\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
# Of a response that tells nothing of caching, which is the application's to do; and of the statuses themselves.
ALLOWED = {
    "This response allows caches to assign their own freshness lifetimes to it.",
    "The server didn't understand the request.",
    "The server won't accept a URI this long .",
    "The request HTTP version isn't supported.",
}
RESPONSES = {
    "page": (200, f"GET / HTTP/1.1\r\n{LAST}"),
    "page for HTTP/1.0": (200, "GET / HTTP/1.0\r\n\r\n"),
    "chunks": (200, f"GET /stream HTTP/1.1\r\n{LAST}"),
    "until the end": (200, "GET /stream HTTP/1.0\r\n\r\n"),
    "after chunks": (200, f"PUT /digest HTTP/1.1\r\n{CHUNKED}{LAST}3\r\nabc\r\n0\r\n\r\n"),
    "no content": (204, f"GET /nothing HTTP/1.1\r\n{LAST}"),
    "cookies": (200, f"GET /login HTTP/1.1\r\n{LAST}"),
    "options": (200, f"OPTIONS / HTTP/1.1\r\n{LAST}"),
    "options of all": (200, f"OPTIONS * HTTP/1.1\r\n{LAST}"),
    "missing": (404, f"GET /not-there HTTP/1.1\r\n{LAST}"),
    "not allowed": (405, f"GET /form HTTP/1.1\r\n{LAST}"),
    "error": (500, f"GET /fails HTTP/1.1\r\n{LAST}"),
    "no host": (400, "GET / HTTP/1.1\r\n\r\n"),
    "too large": (413, f"POST /digest HTTP/1.1\r\nContent-Length: 20000000\r\n{LAST}"),
    "long target": (414, f"GET /{'x' * 70_000} HTTP/1.1\r\n{LAST}"),
    "expectation": (417, f"GET / HTTP/1.1\r\nExpect: the worst\r\n{LAST}"),
    "large head": (431, f"GET / HTTP/1.1\r\nX: {'x' * 70_000}\r\n{LAST}"),
    "coding": (501, f"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n{LAST}"),
    "version": (505, f"GET / HTTP/2.0\r\n{LAST}"),
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("site")
    site = behind("serve", directory, "flask_site:application", "--max-body", "10M")
    yield site.port
    site.end()


@pytest.mark.parametrize("name", RESPONSES)
def test_nothing_is_bad(port: int, name: str) -> None:
    status, request = RESPONSES[name]
    with Client(port) as client:
        client.send(request.encode())
        got = client.response(request.partition(" ")[0])
        client.assert_closed()
    assert got.status == status, got
    linter = HttpResponseLinter(start_time=time.time())
    linter.process_response_topline(b"1.1", b"%d" % got.status, got.reason.encode())
    linter.process_headers([(name.encode(), value.encode()) for name, value in got.headers])
    linter.feed_content(got.body)
    linter.finish_content(True, [])
    said = {(note.level.name, str(note.summary)) for note in linter.notes}
    assert ("GOOD", "The server's clock is correct.") in said
    assert {text for level, text in said if level in ("BAD", "WARN")} <= ALLOWED
