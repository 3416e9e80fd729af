"""When start_response may be called, with what, and what becomes of it."""

from __future__ import annotations

import pytest
import starting
from support.ways import Log, Seen, Site, Way

APP = "starting:application"


def fails(way: Way, target: str, method: str = "GET") -> Seen:
    """The server's own 500, with nothing of the application in it, and the connection in step."""
    seen = way.ask(target, method=method)
    assert seen.status == 500
    assert seen.body == (b"" if method == "HEAD" else b"500 Internal Server Error\n")
    assert seen.header("Content-Length") == "26"
    names = {name for name, _ in seen.headers}
    assert names == {"Content-Type", "Content-Length", "Date", "Server"}
    assert seen.kept
    return seen


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/from-a-generator", id="S01"),
        pytest.param("/from-an-iterator", id="S01-iterator"),
        pytest.param("/from-iter", id="S01-iter"),
    ],
)
def test_it_may_be_called_with_the_first_block(way: Way, target: str) -> None:
    seen = way.ask(target)
    assert (seen.status, seen.reason, seen.header("X-Late")) == (404, "Not Found", "1")
    assert seen.body == b"gone"
    head = way.ask(target, method="HEAD")
    assert (head.status, head.header("X-Late"), head.body) == (404, "1", b"")


def test_it_may_be_called_as_late_as_in_close(way: Way) -> None:
    """S01: nobody else minds, and there is nothing to be gained from a 500."""
    seen = way.ask("/from-close")
    assert (seen.status, seen.header("X-Late"), seen.body) == (404, "1", b"")


@pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param("/empty-blocks-first", b"x", id="S02"),
        pytest.param("/empty-blocks-between", b"xy", id="S02-between"),
        pytest.param("/empty-blocks-only", b"", id="S02-only"),
        pytest.param("/empty-blocks-of-a-list", b"x", id="S02-list"),
        pytest.param("/empty-write-first", b"x", id="S02-write"),
        pytest.param("/empty-block-before", b"x", id="S02-before-the-call"),
    ],
)
@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
def test_empty_blocks(way: Way, target: str, body: bytes, version: str) -> None:
    seen = way.ask(target, version=version)
    assert (seen.status, seen.reason, seen.body) == (201, "Created", body)
    assert 0 not in seen.chunks


def test_an_empty_block_does_not_send_the_head(way: Way) -> None:
    """S02, S04."""
    seen = way.ask("/head-waits")
    assert (seen.status, seen.body, seen.header("X-Old")) == (503, b"busy", None)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/none-by-place", id="S03"),
        pytest.param("/none-by-name", id="S03-name"),
        pytest.param("/all-by-name", id="S03-all-names"),
        pytest.param("/false-by-place", id="S03-empty"),
        pytest.param("/nothing-is-handled", id="S03-three-nones"),
    ],
)
def test_exc_info_that_is_none(way: Way, target: str) -> None:
    seen = way.ask(target)
    assert (seen.status, seen.body) == (200, b"ok")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param("/false-and-twice", "already called", id="S03-false-is-none"),
        pytest.param("/no-tuple", "TypeError: exc_info must be a tuple", id="S03-no-tuple"),
    ],
)
def test_exc_info_that_is_no_exception(way: Way, log: Log, target: str, words: str) -> None:
    fails(way, target)
    log.wait_for(words)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/replaced", id="S04"),
        pytest.param("/replaced-twice", id="S04-twice"),
        pytest.param("/replaced-first", id="S04-first-call"),
    ],
)
def test_a_head_that_is_not_out_is_replaced(way: Way, target: str) -> None:
    seen = way.ask(target)
    assert (seen.status, seen.reason, seen.body) == (500, "Oops", b"err")
    assert seen.header("X-Replaced") == "1"
    assert seen.header("X-Old") is None
    assert seen.header("Content-Length") == "3"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param("/raised-again", "ZeroDivisionError: the first", id="S04-too-late"),
        pytest.param("/none-again", "the head has been sent", id="S04-too-late-for-nothing"),
        pytest.param("/again-after-the-body", "already called", id="S16-after-the-body"),
    ],
)
def test_a_head_that_is_out_stays(way: Way, log: Log, target: str, words: str) -> None:
    seen = way.ask(target)
    assert (seen.status, seen.body, seen.framing) == (200, b"part", "cut")
    log.wait_for(words)


def test_the_exception_that_was_given_is_raised(way: Way) -> None:
    """S04."""
    assert way.ask("/raised-again-and-caught").body == b"part same"


@pytest.mark.parametrize(
    ("target", "status", "body"),
    [
        pytest.param("/writes", 200, b"ab", id="S05"),
        pytest.param("/writes-from-a-generator", 200, b"abcd", id="S05-generator"),
        pytest.param("/writes-only", 200, b"ab", id="S05-only"),
        pytest.param("/writes-with-the-first", 500, b"ab", id="S05-replaced"),
    ],
)
def test_write(way: Way, target: str, status: int, body: bytes) -> None:
    seen = way.ask(target)
    assert (seen.status, seen.body) == (status, body)
    assert seen.header("X-Old") is None


def case(name: str) -> str:
    """The number of a case."""
    kind, _, what = name.partition("-")
    if kind == "length":
        return "S17"
    if what in ("beyond", "euro", "surrogate"):
        return "S10"
    if kind in ("headers", "header") or what in ("bytes", "int", "none", "tuple", "list"):
        return "S09"
    return "S06"


BAD = [pytest.param(name, id=f"{case(name)}-{name}") for name in starting.BAD]


@pytest.mark.parametrize("name", BAD)
def test_a_head_that_cannot_be_sent(way: Way, log: Log, name: str) -> None:
    fails(way, f"/bad?{name}")
    wrong_type = case(name) == "S09" or name == "length-int"
    log.wait_for("TypeError: " if wrong_type else "ValueError: ")
    log.wait_for("in bad")


@pytest.mark.parametrize("name", ["value-crlf", "name-crlf", "status-crlf", "value-bytes"])
def test_a_head_that_cannot_be_sent_in_other_places(way: Way, name: str) -> None:
    """S06, S09."""
    fails(way, f"/bad-in-a-generator?{name}")
    fails(way, f"/bad?{name}", method="HEAD")
    seen = way.ask(f"/bad-too-late?{name}")
    assert (seen.status, seen.body, seen.framing) == (200, b"part", "cut")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("value-bytes", "the value of header 'X' must be str, not bytes", id="S09"),
        pytest.param("name-bytes", "the header name b'X' must be str, not bytes", id="S09-name"),
        pytest.param("value-none", "header 'X' must be str, not NoneType", id="S09-none"),
        pytest.param("headers-tuple", "the headers must be a list, not tuple", id="S09-tuple"),
        pytest.param("value-beyond", "header 'X' has characters beyond latin-1", id="S10"),
        pytest.param("length-word", "header 'Content-Length'", id="S17"),
    ],
)
def test_the_log_names_the_header(site: Site, log: Log, name: str, words: str) -> None:
    fails(site.wire, f"/bad?{name}")
    log.wait_for(words)


def test_a_call_that_was_refused_counts_for_nothing(way: Way) -> None:
    """S06."""
    seen = way.ask("/refused-and-forgiven")
    assert (seen.status, seen.reason, seen.body) == (400, "Mended", b"mended")


OURS = {"Date", "Server", "Content-Length"}
GOOD = {
    **{"latin-1": "S10", "latin-1-ends": "S10", "latin-1-status": "S10", "utf-8-as-latin-1": "S10"},
    **{"case": "S11", "apart": "S11", "empty-value": "S11", "tab": "S11", "comma": "S11"},
    **{"date-and-server": "S12", "date-and-server-lower": "S12", "date-empty": "S12"},
    **{"no-reason": "S06", "blank-reason": "S06", "unknown-status": "S06", "teapot": "S06"},
    **{"subclasses": "S09"},
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, id=f"{GOOD[name]}-{name}") for name in starting.GOOD]
)
def test_a_head_goes_out_as_it_is(way: Way, name: str) -> None:
    status, headers = starting.GOOD[name]
    seen = way.ask(f"/good?{name}")
    assert f"{seen.status} {seen.reason}".strip() == status.strip()
    given = [tuple(pair) for pair in headers]
    assert seen.headers[: len(given)] == given
    added = {key for key, _ in seen.headers[len(given) :]}
    own = {key.title() for key, _ in given}
    assert added == OURS - own
    assert len(seen.all("Date")) == len(seen.all("Server")) == 1


def test_what_was_given_counts(way: Way) -> None:
    """S06: no way round the checks."""
    seen = way.ask("/changed-later")
    assert (seen.status, seen.header("X"), seen.header("Y")) == (200, "1", None)


@pytest.mark.parametrize(
    "name", [pytest.param(name, id=f"S13-{name}") for name in starting.HOP_BY_HOP]
)
@pytest.mark.parametrize("blocks", ["", ",iterator"])
def test_hop_by_hop_headers_are_the_servers(site: Site, way: Way, name: str, blocks: str) -> None:
    seen = way.ask(f"/hop-by-hop?{name}{blocks}")
    assert (seen.status, seen.body, seen.kept) == (200, b"hello", True)
    assert (seen.header("X-Before"), seen.header("X-After")) == ("1", "1")
    header, _ = starting.HOP_BY_HOP[name]
    assert seen.all(header) == (
        ["chunked"] if blocks and header.lower() == "transfer-encoding" else []
    )
    assert seen.framing == ("chunked" if blocks else "length")
    site.lurcher.wait_for_err("of the application is dropped")


@pytest.mark.parametrize("how", [pytest.param("one", id="S13-close"), "case", "list"])
def test_the_application_may_wish_the_close(way: Way, how: str) -> None:
    seen = way.ask(f"/wants-close?{how}")
    assert (seen.header("Connection"), seen.kept, seen.body) == ("close", False, b"hello")


@pytest.mark.parametrize("version", [pytest.param("HTTP/1.1", id="S15"), "HTTP/1.0"])
def test_nothing_to_iterate(site: Site, way: Way, version: str) -> None:
    start = len(site.lurcher.err())
    seen = way.ask("/no-content", version=version)
    assert (seen.status, seen.body, seen.framing) == (204, b"", "none")
    assert seen.header("Content-Length") is None
    assert "/no-content" not in site.lurcher.err()[start:]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param("/never", "start_response must be called before", id="S16-never"),
        pytest.param("/never-and-empty", "start_response was not called", id="S16-empty"),
        pytest.param("/never-in-a-generator", "start_response was not called", id="S16-generator"),
        pytest.param("/twice", "start_response was already called", id="S16-twice"),
        pytest.param(
            "/twice-in-a-generator", "start_response was already called", id="S16-twice-g"
        ),
        pytest.param("/body-before", "start_response must be called before", id="S16-too-late"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_calls_at_the_wrong_time(way: Way, log: Log, target: str, words: str, method: str) -> None:
    fails(way, target, method)
    log.wait_for(words)
