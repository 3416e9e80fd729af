"""Every way to call start_response, right and wrong: the path names it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from afterwards import AFTER, after

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], None]]

TEXT = [("Content-Type", "text/plain")]


def ok(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return [b"ok"]


# When it is called.


def from_a_generator(environ: Environ, start: Start) -> Iterator[bytes]:
    start("404 Not Found", [*TEXT, ("X-Late", "1")])
    yield b"gone"


class Late:
    """An iterator that calls it with the first block that is asked for."""

    def __init__(self, start: Start) -> None:
        self.start, self.blocks = start, iter([b"go", b"ne"])
        self.called = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self.called:
            self.start("404 Not Found", [*TEXT, ("X-Late", "1")])
            self.called = True
        return next(self.blocks)


def from_an_iterator(environ: Environ, start: Start) -> Iterable[bytes]:
    return Late(start)


def from_iter(environ: Environ, start: Start) -> Iterable[bytes]:
    class Body:
        def __iter__(self) -> Iterator[bytes]:
            start("404 Not Found", [*TEXT, ("X-Late", "1")])
            return iter([b"gone"])

    return Body()


def from_close(environ: Environ, start: Start) -> Iterable[bytes]:
    class Body:
        def __iter__(self) -> Iterator[bytes]:
            return iter(())

        def close(self) -> None:
            start("404 Not Found", [*TEXT, ("X-Late", "1")])

    return Body()


def empty_blocks_first(environ: Environ, start: Start) -> Iterator[bytes]:
    start("201 Created", TEXT)
    yield b""
    yield b""
    yield b"x"


def empty_blocks_between(environ: Environ, start: Start) -> Iterator[bytes]:
    start("201 Created", TEXT)
    yield b"x"
    yield b""
    yield b"y"
    yield b""


def empty_blocks_only(environ: Environ, start: Start) -> Iterator[bytes]:
    start("201 Created", TEXT)
    yield b""
    yield b""


def empty_blocks_of_a_list(environ: Environ, start: Start) -> Iterable[bytes]:
    start("201 Created", TEXT)
    return [b"", b"x", b""]


def empty_write_first(environ: Environ, start: Start) -> Iterable[bytes]:
    write = start("201 Created", TEXT)
    write(b"")
    write(b"x")
    return [b""]


def empty_block_before(environ: Environ, start: Start) -> Iterator[bytes]:
    yield b""
    start("201 Created", TEXT)
    yield b"x"


def head_waits(environ: Environ, start: Start) -> Iterator[bytes]:
    """A head is not out before the first byte: an empty block does not keep it from being replaced."""
    start("200 OK", [*TEXT, ("X-Old", "1")])
    yield b""
    try:
        raise ValueError("late")
    except ValueError:
        start("503 Busy", TEXT, sys.exc_info())
    yield b"busy"


def never(environ: Environ, start: Start) -> Iterable[bytes]:
    return [b"x"]


def never_and_empty(environ: Environ, start: Start) -> Iterable[bytes]:
    return []


def never_in_a_generator(environ: Environ, start: Start) -> Iterator[bytes]:
    return
    yield


def twice(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    start("200 OK", TEXT)
    return [b"x"]


def twice_in_a_generator(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    start("200 OK", TEXT)
    yield b"x"


def body_before(environ: Environ, start: Start) -> Iterator[bytes]:
    yield b"x"
    start("200 OK", TEXT)


def again_after_the_body(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    yield b"part"
    start("500 Oops", TEXT)
    yield b"more"


def no_content(environ: Environ, start: Start) -> Iterator[bytes]:
    start("204 No Content", [])
    return
    yield


def refused_and_forgiven(environ: Environ, start: Start) -> Iterable[bytes]:
    """A call that was refused counts for nothing."""
    try:
        start("200 OK", [("X", "a\nb")])
    except ValueError:
        start("400 Mended", TEXT)
    return [b"mended"]


# exc_info.


def failed() -> Any:
    try:
        raise ZeroDivisionError("the first")
    except ZeroDivisionError:
        return sys.exc_info()


def none_by_place(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT, None)
    return [b"ok"]


def none_by_name(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT, exc_info=None)
    return [b"ok"]


def all_by_name(environ: Environ, start: Start) -> Iterable[bytes]:
    start(status="200 OK", response_headers=TEXT, exc_info=None)
    return [b"ok"]


def false_by_place(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT, ())
    return [b"ok"]


def nothing_is_handled(environ: Environ, start: Start) -> Iterable[bytes]:
    """What sys.exc_info() gives where no exception is."""
    start("200 OK", TEXT, (None, None, None))
    return [b"ok"]


def false_and_twice(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    start("200 OK", TEXT, False)
    return [b"x"]


def no_tuple(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT, ValueError("x"))
    return [b"x"]


def replaced(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [*TEXT, ("X-Old", "1"), ("Content-Length", "99")])
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        start("500 Oops", [*TEXT, ("X-Replaced", "1")], sys.exc_info())
    return [b"err"]


def replaced_twice(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [*TEXT, ("X-Old", "1")])
    start("501 Oops", [*TEXT, ("X-Old", "2")], failed())
    start("500 Oops", [*TEXT, ("X-Replaced", "1")], failed())
    return [b"err"]


def replaced_first(environ: Environ, start: Start) -> Iterable[bytes]:
    start("500 Oops", [*TEXT, ("X-Replaced", "1")], failed())
    return [b"err"]


def raised_again(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    yield b"part"
    start("500 Oops", TEXT, failed())
    yield b"never"


def raised_again_and_caught(environ: Environ, start: Start) -> Iterator[bytes]:
    """The very exception comes back, with the traceback that was given."""
    start("200 OK", TEXT)
    yield b"part"
    info = failed()
    info[1].__traceback__ = None
    try:
        start("500 Oops", TEXT, info)
    except ZeroDivisionError as error:
        trace = error.__traceback__
        found = []
        while trace is not None:
            found.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        yield b" same" if error is info[1] and "failed" in found else b" other"


def none_again(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    yield b"part"
    start("500 Oops", TEXT, (None, None, None))


# write().


def writes(environ: Environ, start: Start) -> Iterable[bytes]:
    write = start("200 OK", TEXT)
    write(b"a")
    return [b"b"]


def writes_from_a_generator(environ: Environ, start: Start) -> Iterator[bytes]:
    write = start("200 OK", TEXT)
    write(b"a")
    yield b"b"
    write(b"c")
    yield b"d"


def writes_only(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)(b"ab")
    return []


def writes_with_the_first(environ: Environ, start: Start) -> Iterable[bytes]:
    """The callable of a head that was replaced writes after the new one."""
    write = start("200 OK", [*TEXT, ("X-Old", "1")])
    start("500 Oops", TEXT, failed())
    write(b"a")
    return [b"b"]


# Heads that cannot be sent. Each is an error where it is made.

BAD: dict[str, tuple[Any, Any]] = {
    "value-crlf": ("200 OK", [("X", "a\r\nSet-Cookie: x=1")]),
    "value-lf": ("200 OK", [("X", "a\nSet-Cookie: x=1")]),
    "value-cr": ("200 OK", [("X", "a\rSet-Cookie: x=1")]),
    "value-nul": ("200 OK", [("X", "a\0b")]),
    "value-fold": ("200 OK", [("X", "a\r\n b")]),
    "value-end": ("200 OK", [("X", "a\r\n")]),
    "value-escape": ("200 OK", [("X", "\x1b[31m")]),
    "value-delete": ("200 OK", [("X", "\x7f")]),
    "name-crlf": ("200 OK", [("A\r\nB", "1")]),
    "name-lf": ("200 OK", [("A\nSet-Cookie", "1")]),
    "name-nul": ("200 OK", [("A\0", "1")]),
    "name-colon": ("200 OK", [("A: b\t", "1")]),
    "name-blank": ("200 OK", [("A ", "1")]),
    "name-empty": ("200 OK", [("", "1")]),
    "name-latin-1": ("200 OK", [("caf\xe9", "1")]),
    "status-crlf": ("200 OK\r\nX: y", []),
    "status-lf": ("200 OK\nX: y", []),
    "status-cr": ("200 OK\r", []),
    "status-nul": ("200 O\0K", []),
    "status-word": ("OK", []),
    "status-empty": ("", []),
    "status-short": ("20 OK", []),
    "status-long": ("2000 OK", []),
    "status-glued": ("200OK", []),
    "status-sign": ("-20 OK", []),
    "status-digits": ("\u0662\u0660\u0660 OK", []),
    "status-superscript": ("\xb2\xb2\xb2 OK", []),
    "status-zero": ("000 OK", []),
    "status-bytes": (b"200 OK", []),
    "status-int": (200, []),
    "status-none": (None, []),
    "status-tuple": (("200", "OK"), []),
    "value-bytes": ("200 OK", [("X", b"1")]),
    "value-int": ("200 OK", [("X", 1)]),
    "value-none": ("200 OK", [("X", None)]),
    "value-list": ("200 OK", [("X", ["1"])]),
    "name-bytes": ("200 OK", [(b"X", "1")]),
    "name-none": ("200 OK", [(None, "1")]),
    "headers-tuple": ("200 OK", (("X", "1"),)),
    "headers-dict": ("200 OK", {"X": "1"}),
    "headers-none": ("200 OK", None),
    "headers-generator": ("200 OK", (pair for pair in [("X", "1")])),
    "header-list": ("200 OK", [["X", "1"]]),
    "header-str": ("200 OK", ["X1"]),
    "header-triple": ("200 OK", [("X", "1", "2")]),
    "header-single": ("200 OK", [("X",)]),
    "header-none": ("200 OK", [None]),
    "value-beyond": ("200 OK", [("X", "\u4e2d")]),
    "value-euro": ("200 OK", [("X", "\u20ac")]),
    "value-surrogate": ("200 OK", [("X", "\udce9")]),
    "name-beyond": ("200 OK", [("\u4e2d", "1")]),
    "status-beyond": ("200 \u4e2d", []),
    "length-int": ("200 OK", [("Content-Length", 5)]),
    "length-word": ("200 OK", [("Content-Length", "abc")]),
    "length-negative": ("200 OK", [("Content-Length", "-1")]),
    "length-plus": ("200 OK", [("Content-Length", "+5")]),
    "length-list": ("200 OK", [("Content-Length", "5, 5")]),
    "length-empty": ("200 OK", [("Content-Length", "")]),
    "length-point": ("200 OK", [("Content-Length", "5.0")]),
    "length-hex": ("200 OK", [("Content-Length", "0x5")]),
    "length-superscript": ("200 OK", [("Content-Length", "\xb2")]),
    "length-huge": ("200 OK", [("Content-Length", "99999999999999999999")]),
    "length-underscore": ("200 OK", [("Content-Length", "1_0")]),
    "length-twice": ("200 OK", [("Content-Length", "5"), ("Content-Length", "5")]),
    "length-twice-in-two-cases": ("200 OK", [("Content-Length", "5"), ("content-length", "6")]),
}


def bad(environ: Environ, start: Start) -> Iterable[bytes]:
    status, headers = BAD[environ["QUERY_STRING"]]
    start(status, headers)
    return [b"hello"]


def bad_in_a_generator(environ: Environ, start: Start) -> Iterator[bytes]:
    yield b""
    yield from bad(environ, start)


def bad_too_late(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    yield b"part"
    start(*BAD[environ["QUERY_STRING"]], failed())


# Heads that can.


class Safe(str):
    """As Django's safe strings are."""


class Pair(tuple[str, str]):
    """As named tuples are."""


class Headers(list[tuple[str, str]]):
    """As some frameworks keep them."""


GOOD: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "latin-1": ("200 OK", [("Location", "/foob\u00e0r")]),
    "latin-1-ends": ("200 OK", [("X", "\x80\xff")]),
    "latin-1-status": ("200 caf\xe9", []),
    "utf-8-as-latin-1": ("200 OK", [("X", "\u4e2d".encode().decode("latin-1"))]),
    "case": (
        "200 OK",
        [("P3P", "x"), ("eTag", "y"), ("Set-Cookie", "1"), ("set-cookie", "2"), ("x-lower", "z")],
    ),
    "apart": (
        "200 OK",
        [("Set-Cookie", "a=1"), ("Link", "<a>"), ("Set-Cookie", "b"), ("Link", "c")],
    ),
    "empty-value": ("200 OK", [("X", "")]),
    "tab": ("200 OK", [("X", "a\tb")]),
    "comma": ("200 OK", [("X", 'a, "b;c"')]),
    "date-and-server": ("200 OK", [("Date", "then"), ("Server", "mine")]),
    "date-and-server-lower": ("200 OK", [("date", "then"), ("SERVER", "mine")]),
    "date-empty": ("200 OK", [("Date", ""), ("Server", "")]),
    "no-reason": ("200", []),
    "blank-reason": ("200 ", []),
    "unknown-status": ("299 Whatever It Is", []),
    "teapot": ("418 I'm a teapot", []),
    "subclasses": (Safe("200 OK"), Headers([Pair((Safe("X"), Safe("1")))])),
}


def good(environ: Environ, start: Start) -> Iterable[bytes]:
    status, headers = GOOD[environ["QUERY_STRING"]]
    start(status, headers)
    return [b"hello"]


def changed_later(environ: Environ, start: Start) -> Iterable[bytes]:
    """What was given is what counts, whatever becomes of the list."""
    headers = [("X", "1")]
    start("200 OK", headers)
    headers.append(("Y", "a\nb"))
    headers[0] = cast(Any, ("X", 2))
    return [b"hello"]


HOP_BY_HOP = {
    "connection": ("Connection", "keep-alive"),
    "connection-upgrade": ("Connection", "Upgrade"),
    "keep-alive": ("Keep-Alive", "timeout=5"),
    "transfer-encoding": ("Transfer-Encoding", "chunked"),
    "transfer-encoding-gzip": ("transfer-encoding", "gzip"),
    "upgrade": ("Upgrade", "websocket"),
    "trailer": ("Trailer", "X"),
    "te": ("TE", "trailers"),
    "proxy-authenticate": ("Proxy-Authenticate", "Basic"),
    "proxy-authorization": ("Proxy-Authorization", "Basic x"),
    "proxy-connection": ("Proxy-Connection", "keep-alive"),
}


def hop_by_hop(environ: Environ, start: Start) -> Iterable[bytes]:
    name, _, how = environ["QUERY_STRING"].partition(",")
    start("200 OK", [("X-Before", "1"), HOP_BY_HOP[name], ("X-After", "1")])
    return iter([b"he", b"llo"]) if how else [b"hello"]


def wants_close(environ: Environ, start: Start) -> Iterable[bytes]:
    value = {"one": "close", "case": "Close", "list": "x-trace, close"}[environ["QUERY_STRING"]]
    start("200 OK", [("Connection", value)])
    return [b"hello"]


ROUTES: dict[str, Callable[[Environ, Start], Any]] = {
    "/" + name.replace("_", "-"): value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", None) == __name__
}


def application(environ: Environ, start: Start) -> Any:
    if environ["PATH_INFO"] == AFTER:
        return after(environ, start)
    return ROUTES[environ["PATH_INFO"]](environ, start)
