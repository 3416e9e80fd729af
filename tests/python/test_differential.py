"""The same bytes to Lurcher (behind the real Mongrel2) and to waitress: the same answer, less what is listed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mongrel2 import free_ports
from support.process import APPS
from support.rawhttp import Client, request
from support.stage import Stage
from support.waiting import wait_for
from support.ways import Seen, read_response

WAITRESS = Path(sys.prefix) / "bin" / "waitress-serve"


def get(target: str, *headers: tuple[str, str], method: str = "GET", **options: Any) -> bytes:
    return request(method, target, headers, **options)


FORM = ("Content-Type", "application/x-www-form-urlencoded")
CHUNKS = b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"

# What is sent. Every application is asked with GET, HEAD, POST, and in HTTP/1.0; and then:
REQUESTS: dict[str, bytes] = {
    "query": get("/environ?a=%20b&c=d?e"),
    "empty query": get("/environ?"),
    "utf-8 path": get("/caf%C3%A9/%E2%80%8E"),
    "latin-1 path": get("/caf%E9"),
    "escapes": get("/a%2Fb%25%00c+d;e"),
    "slashes": get("//a//b/"),
    "dots": get("/a/../b/./c"),
    "fragment": get("/a?b#c"),
    "absolute": get("http://localhost/environ?x=1"),
    "headers": get("/environ", ("Accept", "a/b"), ("X-Term", "caf\xe9"), ("X-Empty", "")),
    "repeated headers": get("/environ", ("X-Two", "1"), ("Accept", "a"), ("x-two", "2")),
    "repeated cookies": get("/environ", ("Cookie", "a=1"), ("Cookie", "b=2")),
    "underscore": get("/environ", ("X_User", "evil"), ("X-Other", "1")),
    "proxy header": get("/environ", ("Proxy", "http://evil/")),
    "authorization": get("/environ", ("Authorization", "Basic dTpw")),
    "host and port": get("/environ", ("Host", "shop.example:8443")),
    "claims": get(
        "/environ",
        *(("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "evil"), ("Forwarded", "for=6")),
        *(("X-Script-Name", "/evil"), ("X-Real-Ip", "6.6.6.6")),
    ),
    "http/1.0": get("/environ", version="HTTP/1.0"),
    "form": get("/environ", FORM, method="POST", body=b"a=1"),
    "empty post": get("/environ", method="POST", body=b""),
    "post without length": get("/environ", method="POST"),
    "put": get("/echo", ("Content-Type", "application/json"), method="PUT", body=b'{"a":1}'),
    "binary": get("/echo", method="POST", body=bytes(range(256)) * 70),
    "chunked": get("/echo", ("Transfer-Encoding", "chunked"), method="POST") + CHUNKS,
    "chunked pieces": get("/pieces", ("Transfer-Encoding", "chunked"), method="POST") + CHUNKS,
    "pieces": get("/pieces", method="POST", body=b"abcdef\ngh\n\nij"),
    "rewound": get("/rewound", method="POST", body=b"abcdef"),
    "delete": get("/echo", method="DELETE"),
    "patch": get("/echo", method="PATCH", body=b"x"),
    "options": get("/echo", method="OPTIONS"),
    "propfind": get("/echo", method="PROPFIND", body=b"<x/>"),
    "report": get("/echo", method="REPORT", body=b"<x/>"),
    "keep-alive": get("/many", ("Connection", "keep-alive"), version="HTTP/1.0"),
    "close": get("/streamed", ("Connection", "close")),
}

APPLICATIONS = (
    *("environ", "echo", "pieces", "rewound", "streamed", "streamed-with-a-length"),
    *("empty-blocks", "many", "nothing", "writes", "no-content", "not-modified", "not-found"),
    *("redirect", "headers", "own-date-and-server", "replaced", "file", "part-of-a-file"),
    *("file-through-middleware", "raises", "raises-after-the-start", "raises-in-the-middle"),
    *("never-starts", "starts-twice", "text", "too-long", "too-short", "split"),
    *("bytes-value", "bytes-status", "hop-by-hop", "body-with-204"),
)
for name in APPLICATIONS:
    REQUESTS[f"GET {name}"] = get(f"/{name}")
    REQUESTS[f"HEAD {name}"] = get(f"/{name}", method="HEAD")
    REQUESTS[f"POST {name}"] = get(f"/{name}", method="POST", body=b"abc\ndef")
    REQUESTS[f"1.0 {name}"] = get(f"/{name}", version="HTTP/1.0")


class Wanted(NamedTuple):
    """A difference that is meant to be: in which requests (a pattern), in which fields (patterns), and why."""

    requests: str
    fields: tuple[str, ...]
    reason: str


# Not compared at all: Date; Server and Via, which name the server; and how the end of a body is told (Content-Length
# that the server adds, Transfer-Encoding, Connection), for which each has its own good reasons: Lurcher gives a length
# to any list, waitress to a list of one and to files, and it closes HTTP/1.0 connections where Lurcher knows a length.
# Whether a body is complete is compared. Headers are compared in the order of their names, since waitress sorts them.
UNCOMPARED = {"date", "server", "via", "content-length", "transfer-encoding", "connection"}

# Asked of Lurcher alone. SystemExit ends the thread of waitress, which never answers.
LURCHER_ONLY = {"leaves": 500}

PAGE = ("body", "header content-type")
WANTED = [
    Wanted(
        "*", ("environ SERVER_NAME", "environ SERVER_PORT"), "Lurcher has no socket: the Host says"
    ),
    Wanted("*", ("environ SERVER_SOFTWARE",), "each its name"),
    Wanted("*", ("environ lurcher.*",), "Mongrel2's names for the exchange"),
    Wanted("*", ("environ waitress.*",), "waitress's own"),
    Wanted(
        "*", ("environ wsgi.errors", "environ RAW_URI"), "another type; another key of gunicorn's"
    ),
    Wanted("*", ("environ REMOTE_HOST", "environ REMOTE_PORT"), "Mongrel2 does not tell the port"),
    Wanted("*", ("environ HTTP_X_FORWARDED_FOR",), "added by Mongrel2"),
    Wanted(
        "slashes",
        ("environ PATH_INFO",),
        "waitress joins leading slashes; the path is the client's",
    ),
    Wanted("fragment", ("environ REQUEST_URI",), "Mongrel2 cuts a fragment off"),
    Wanted("absolute", ("environ REQUEST_URI",), "Mongrel2 cuts the scheme off"),
    Wanted("repeated cookies", ("environ HTTP_COOKIE",), "RFC 9113 section 8.2.3: joined by `; `"),
    Wanted("proxy header", ("environ HTTP_PROXY",), "libraries take it for a setting"),
    Wanted(
        "claims",
        ("environ HTTP_X_FORWARDED_*", "environ HTTP_FORWARDED"),
        "waitress hides them from the application; to Lurcher they are headers like any other",
    ),
    Wanted(
        "chunked*",
        ("status", "reason", "body", "header *"),
        "Mongrel2 takes a chunked body only as an upload into a file",
    ),
    Wanted("* headers", ("header p3p", "header etag"), "waitress changes the case of names"),
    Wanted("* not-modified", ("header etag",), "waitress changes the case of names"),
    *(
        Wanted(f"* {name}", ("body",), "each its own error page")
        for name in (
            *("raises", "raises-after-the-start", "never-starts", "starts-twice", "split"),
            *("bytes-value", "bytes-status"),
        )
    ),
    Wanted(
        "* text",
        (*PAGE, "status", "reason", "complete"),
        "waitress has sent the head when it finds that a block is no bytes",
    ),
    Wanted(
        "* hop-by-hop",
        (*PAGE, "status", "reason"),
        "waitress refuses hop-by-hop headers, Lurcher drops them as gunicorn does",
    ),
]


class Site:
    def __init__(self, directory: Path) -> None:
        self.stage = Stage(directory)
        front = self.stage.mongrel2()
        self.stage.lurcher(*front.options, app="small:application")
        self.lurcher_port = front.port
        (self.waitress_port,) = free_ports(1)
        with (directory / "waitress").open("wb") as output:
            self.waitress = subprocess.Popen(
                [
                    *(str(WAITRESS), f"--listen=127.0.0.1:{self.waitress_port}"),
                    "small:application",
                ],
                env={**os.environ, "PYTHONPATH": str(APPS)},
                stdout=output,
                stderr=output,
            )
        wait_for("waitress to listen", self.listens)

    def listens(self) -> bool:
        try:
            Client(self.waitress_port).close()
        except OSError:
            return False
        return True

    def end(self) -> None:
        self.waitress.terminate()
        self.waitress.wait()
        self.stage.clear_away()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("differential"))
    yield site
    site.end()


def ask(port: int, sent: bytes) -> Seen:
    method = sent.split(b" ")[0].decode()
    with Client(port) as client:
        client.send(sent)
        ended = False
        while True:
            if client.buffer or ended:
                found = read_response(client.buffer, method, ended)
                if found is not None:
                    return found[0]
            ended = not client.more()


def fields(seen: Seen) -> dict[str, Any]:
    """What is compared, each under its name."""
    found: dict[str, Any] = {
        "status": seen.status,
        "reason": seen.reason,
        "complete": seen.framing != "cut",
        "body": seen.body,
    }
    for name, value in seen.headers:
        if name.lower() not in UNCOMPARED:
            found.setdefault(f"header {name.lower()}", []).append((name, value))
    if seen.body.startswith(b'{"'):
        del found["body"]
        found.update((f"environ {key}", value) for key, value in json.loads(seen.body).items())
    return found


@pytest.fixture(scope="module")
def differences(site: Site) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Of each request the fields that differ, with both values."""
    found = {}
    for name, sent in REQUESTS.items():
        ours, theirs = fields(ask(site.lurcher_port, sent)), fields(ask(site.waitress_port, sent))
        found[name] = {
            field: (ours.get(field), theirs.get(field))
            for field in sorted({*ours, *theirs})
            if ours.get(field) != theirs.get(field)
        }
    return found


def is_wanted(wanted: Wanted, name: str, field: str) -> bool:
    return fnmatchcase(name, wanted.requests) and any(
        fnmatchcase(field, pattern) for pattern in wanted.fields
    )


@pytest.mark.parametrize("name", REQUESTS)
def test_the_answers_are_equal(
    differences: dict[str, dict[str, tuple[Any, Any]]], name: str
) -> None:
    unwanted = {
        field: values
        for field, values in differences[name].items()
        if not any(is_wanted(wanted, name, field) for wanted in WANTED)
    }
    assert unwanted == {}


@pytest.mark.parametrize("wanted", WANTED, ids=lambda w: f"{w.requests}: {w.reason}")
def test_no_difference_is_listed_that_is_none(
    differences: dict[str, dict[str, tuple[Any, Any]]], wanted: Wanted
) -> None:
    for pattern in wanted.fields:
        assert any(
            fnmatchcase(name, wanted.requests) and fnmatchcase(field, pattern)
            for name, found in differences.items()
            for field in found
        ), pattern


@pytest.mark.parametrize(("name", "status"), LURCHER_ONLY.items())
def test_what_only_lurcher_answers(site: Site, name: str, status: int) -> None:
    assert ask(site.lurcher_port, get(f"/{name}")).status == status
