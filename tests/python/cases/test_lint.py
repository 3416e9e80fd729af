"""Every application that works, once inside each of two checkers; and `--lint`, which offers one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.ways import Log, Site, Way

APP = "linted:application"
# Each time, not once for each place.
ENV = {"PYTHONWARNINGS": "always"}

FORM = [("Content-Type", "application/x-www-form-urlencoded")]

# What the applications of the tests and the examples do when nothing is wrong.
TARGETS = [
    *("probe/environ?a=%20b", "probe/path/caf%C3%A9", "probe/echo", "probe/number/1", "probe/who"),
    *("probe/stream?count=3", "probe/stream?count=3&length=1", "probe/big?mb=1", "probe/headers"),
    *("probe/status?code=204", "probe/status?code=304", "probe/write", "probe/errors?say=x"),
    *("shown/x", "hello/x", "guestbook/", "clock/?ticks=1"),
    *("small/environ", "small/echo", "small/streamed", "small/streamed-with-a-length"),
    *("small/empty-blocks", "small/many", "small/nothing", "small/writes", "small/no-content"),
    *("small/not-found", "small/redirect", "small/headers", "small/replaced", "small/file"),
    *("small/own-date-and-server", "small/file-through-middleware"),
    *("starting/from-a-generator", "starting/from-an-iterator", "starting/empty-blocks-first"),
    *("starting/empty-blocks-between", "starting/empty-blocks-only", "starting/head-waits"),
    *("starting/empty-blocks-of-a-list", "starting/empty-write-first", "starting/replaced-first"),
    *("starting/writes", "starting/writes-from-a-generator", "starting/writes-only"),
    *("starting/none-by-place", "starting/no-content"),
    *("bodies/rights?list", "bodies/rights?tuple", "bodies/rights?iterator", "bodies/rights?map"),
    *("bodies/rights?generator", "bodies/rights?dict", "bodies/empty-with-204"),
    *("bodies/files?bytesio", "bodies/files?only-read", "bodies/files?seek"),
    *("bodies/files?pipe", "bodies/files?upper"),
]


def complaints(said: str) -> list[str]:
    return [
        line
        for line in said.splitlines()
        if any(word in line for word in ("Error", "Warning", "Traceback", "without being closed"))
    ]


# To werkzeug's checker these need the Content-Length that RFC 9110 section 8.6 forbids them.
WITHOUT_CONTENT = {
    "probe/status?code=204",
    "small/no-content",
    "starting/no-content",
    "bodies/empty-with-204",
}

PAIRS = [
    *(("validator", target) for target in TARGETS),
    *(("werkzeug", target) for target in TARGETS if target not in WITHOUT_CONTENT),
]


@pytest.mark.parametrize(("checker", "target"), PAIRS)
def test_no_checker_complains(site: Site, log: Log, checker: str, target: str) -> None:
    for way in (site.wire, site.http):
        path = f"/{checker}/{target}"
        whole = way.ask(path)
        assert whole.reason != "Internal Server Error", whole
        way.ask(path, version="HTTP/1.0")
        way.ask(path, method="POST", headers=FORM, body=b"name=x")
        # The checkers hold a response to HEAD against its length, and werkzeug's is the response to GET.
        if checker == "validator":
            assert way.ask(path, method="HEAD").status == whole.status
    assert complaints(log.said()) == []


@pytest.fixture(scope="module")
def linting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("linting"), "starting:application", ["--lint"])
    yield site
    site.end()


@pytest.fixture(params=["wire", "mongrel2"])
def linted(request: pytest.FixtureRequest, linting: Site) -> Way:
    return linting.wire if request.param == "wire" else linting.http


def test_lint_has_nothing_to_say_of_what_is_right(linting: Site, linted: Way) -> None:
    log = Log(linting)
    for options in ({}, {"method": "HEAD"}, {"version": "HTTP/1.0"}):
        asked: dict[str, Any] = options
        assert linted.ask("/ok", **asked).status == 200
        assert linted.ask("/from-a-generator", **asked).status == 404
    assert linted.ask("/writes").body == b"ab"
    assert complaints(log.said()) == []


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/good?comma", "No Content-Type header found"),
        ("/good?no-reason", "AssertionError"),
        ("/empty-block-before", "AssertionError"),
        ("/all-by-name", "AssertionError"),
    ],
)
def test_lint_tells_what_every_server_takes(
    linting: Site, linted: Way, site: Site, target: str, words: str
) -> None:
    log = Log(linting)
    assert linted.ask(target).status == 500
    log.wait_for(words)


def test_without_lint_it_is_taken(tmp_path_factory: pytest.TempPathFactory) -> None:
    site = Site(tmp_path_factory.mktemp("not-linting"), "starting:application", ["--no-lint"])
    assert site.wire.ask("/good?comma").status == 200
    site.end()
