"""Small applications, each a habit of real ones, that must look the same under every server: the path names it."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], None]]

TEXT = [("Content-Type", "text/plain")]


def environ(environ: Environ, start: Start) -> Iterable[bytes]:
    """Every key with its type, and its value if that is plain."""
    shown = {
        key: [type(value).__name__, value if isinstance(value, str | int | bool | tuple) else ""]
        for key, value in environ.items()
    }
    body = json.dumps(shown).encode()
    start("200 OK", [*TEXT, ("Content-Length", str(len(body)))])
    return [body]


def echo(environ: Environ, start: Start) -> Iterable[bytes]:
    body = environ["wsgi.input"].read(-1)
    start("200 OK", [*TEXT, ("X-Length", environ.get("CONTENT_LENGTH", "none"))])
    return [body]


def pieces(environ: Environ, start: Start) -> Iterable[bytes]:
    stream = environ["wsgi.input"]
    got = [stream.read(3), stream.readline(10), list(stream), stream.read(5)]
    start("200 OK", TEXT)
    return [repr(got).encode()]


def rewound(environ: Environ, start: Start) -> Iterable[bytes]:
    stream = environ["wsgi.input"]
    first = stream.read(4)
    place = stream.tell()
    stream.seek(0)
    start("200 OK", TEXT)
    return [repr((first, place, stream.read(-1))).encode()]


def streamed(environ: Environ, start: Start) -> Iterator[bytes]:
    start("203 Streamed", TEXT)
    for number in range(5):
        yield b"%d\n" % number


def streamed_with_a_length(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", [*TEXT, ("Content-Length", "10")])
    for number in range(5):
        yield b"%d\n" % number


def empty_blocks(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    yield b""
    yield b"a"
    yield b""
    yield b"b"


def many(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return [b"a", b"", b"b"]


def nothing(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return []


def writes(environ: Environ, start: Start) -> Iterable[bytes]:
    write = start("200 OK", TEXT)
    write(b"written, ")
    return [b"returned"]


def no_content(environ: Environ, start: Start) -> Iterable[bytes]:
    start("204 No Content", [("X", "1")])
    return []


def not_modified(environ: Environ, start: Start) -> Iterable[bytes]:
    start("304 Not Modified", [("ETag", '"x"')])
    return []


def not_found(environ: Environ, start: Start) -> Iterable[bytes]:
    start("404 Nowhere", [*TEXT, ("Content-Length", "4")])
    return [b"none"]


def redirect(environ: Environ, start: Start) -> Iterable[bytes]:
    start("302 Found", [("Location", "http://localhost/caf\xe9"), *TEXT])
    return [b""]


def headers(environ: Environ, start: Start) -> Iterable[bytes]:
    given = [
        ("P3P", "x"),
        ("Set-Cookie", "1"),
        ("ETag", '"y"'),
        ("Set-Cookie", "2"),
        ("X", "caf\xe9"),
    ]
    start("200 OK", [*given, *TEXT])
    return [b"ok"]


def own_date_and_server(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [("Date", "then"), ("Server", "mine"), *TEXT])
    return [b"ok"]


def replaced(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [*TEXT, ("X-Old", "1")])
    try:
        raise ValueError("replaced")
    except ValueError:
        start("503 Busy", [*TEXT, ("X-New", "1")], sys.exc_info())
    return [b"busy"]


def file(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](io.BytesIO(b"file" * 10_000), 4096)
    return wrapped


def part_of_a_file(environ: Environ, start: Start) -> Iterable[bytes]:
    opened = tempfile.TemporaryFile()  # noqa: SIM115
    opened.write(b"0123456789")
    opened.seek(3)
    start("206 Partial Content", [*TEXT, ("Content-Length", "4")])
    wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](opened)
    return wrapped


def upper(environ: Environ, start: Start) -> Iterator[bytes]:
    for block in environ["wsgi.file_wrapper"](io.BytesIO(b"abc"), 2):
        yield block.upper()


def file_through_middleware(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return upper(environ, start)


# From here on: what applications must not do.


def raises(environ: Environ, start: Start) -> Iterable[bytes]:
    raise ValueError("early")


def raises_after_the_start(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    raise ValueError("after the start")


def raises_in_the_middle(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    yield b"part"
    raise ValueError("in the middle")


def leaves(environ: Environ, start: Start) -> Iterable[bytes]:
    raise SystemExit(3)


def never_starts(environ: Environ, start: Start) -> Iterable[bytes]:
    return [b"x"]


def starts_twice(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    start("200 OK", TEXT)
    return [b"x"]


def text(environ: Environ, start: Start) -> Any:
    start("200 OK", TEXT)
    return ["text"]


def too_long(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [*TEXT, ("Content-Length", "2")])
    return [b"abc"]


def too_short(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [*TEXT, ("Content-Length", "20")])
    return [b"abc"]


def split(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [("X", "a\r\nSet-Cookie: x=1")])
    return [b"x"]


def bytes_value(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [("X", b"1")])
    return [b"x"]


def bytes_status(environ: Environ, start: Start) -> Iterable[bytes]:
    start(b"200 OK", TEXT)
    return [b"x"]


def hop_by_hop(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [*TEXT, ("Transfer-Encoding", "chunked")])
    return [b"x"]


def body_with_204(environ: Environ, start: Start) -> Iterable[bytes]:
    start("204 No Content", [("Content-Length", "5")])
    return [b"hello"]


ROUTES: dict[str, Callable[[Environ, Start], Any]] = {
    "/" + name.replace("_", "-"): value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", None) == __name__
}


def application(environ_: Environ, start: Start) -> Any:
    return ROUTES.get(environ_["PATH_INFO"], environ)(environ_, start)
