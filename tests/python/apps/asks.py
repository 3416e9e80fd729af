"""What widely used applications ask of a WSGI server, each as small as it can be: for test_applications_ask.py."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], None]]

TEXT = [("Content-Type", "text/plain")]
LOADED_BY = os.getpid()
DATA = bytes(range(256)) * 1000
FILE = tempfile.NamedTemporaryFile()  # noqa: SIM115 - for the life of the process
FILE.write(DATA)
FILE.flush()
STARTED: list[str] = []
CLOSED: list[str] = []

threading.Thread(target=lambda: STARTED.append("ran"), daemon=True).start()


def answer(start: Start, value: object) -> list[bytes]:
    body = json.dumps(value).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def rewind(environ: Environ, start: Start) -> Any:
    """An object database that meets a conflict begins again with the same input."""
    stream = environ["wsgi.input"]
    tries = []
    for _ in range(3):
        tries.append(stream.read().decode("latin-1"))
        assert stream.tell() == len(tries[-1])
        assert stream.read(10) == b""
        stream.seek(0)
    return answer(start, tries)


def strict(environ: Environ, start: Start) -> Any:
    """A request object that takes a builtin dict with strings, and nothing else."""
    if type(environ) is not dict:
        raise TypeError(type(environ))
    wrong = {
        key: type(value).__name__
        for key, value in environ.items()
        if type(key) is not str or (key.isupper() and type(value) is not str)
    }
    return answer(start, wrong)


def form(environ: Environ, start: Start) -> Any:
    """A framework that reads what has a length, or ends by itself, and else nothing."""
    if environ.get("wsgi.input_terminated"):
        body = environ["wsgi.input"].read()
    else:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return answer(start, body.decode("latin-1"))


def write_inside(environ: Environ, start: Start) -> Iterator[bytes]:
    """A version control's protocol: write() from the generator that was returned."""
    write = start("200 OK", TEXT)
    write(b"one,")
    yield b"two,"
    write(b"three,")
    yield b""
    write(b"four")


def write_only(environ: Environ, start: Start) -> Any:
    """A tracker: every page by write(), its error page with exc_info."""
    if environ["QUERY_STRING"] == "error":
        start("200 OK", TEXT)
        try:
            raise LookupError("no such ticket")
        except LookupError:
            write = start("404 Not Found", [*TEXT, ("X-Error", "1")], sys.exc_info())
        write(b"no such ticket")
        return []
    write = start("200 OK", TEXT)
    for number in range(5):
        write(b"%d" % number)
    return []


def late(environ: Environ, start: Start) -> Iterator[bytes]:
    """start_response comes with the first block."""
    start("207 Multi-Status", [*TEXT, ("X-Late", "1")])
    yield b"late"


def empty_blocks(environ: Environ, start: Start) -> Any:
    start("200 OK", TEXT)
    kind = environ["QUERY_STRING"]
    if kind == "tuple":
        return (b"", b"body")
    if kind == "list":
        return [b"", b"bo", b"", b"dy", b""]
    if kind == "iterator":
        return iter([b"", b"", b"bo", b"", b"dy", b""])
    if kind == "all-empty":
        return iter([b"", b""])
    return (b"",)


def repeated(environ: Environ, start: Start) -> Any:
    cookies = [("Set-Cookie", f"auth={number}; Path=/{number}") for number in range(3)]
    links = [("Link", f"</{number}>; rel=next") for number in range(7)]
    start("200 OK", [*TEXT, *cookies, *links])
    return [b"repeated"]


def own_headers(environ: Environ, start: Start) -> Any:
    both = {
        "Server": environ["SERVER_SOFTWARE"] + " mine/1",
        "Date": "Thu, 01 Jan 1970 00:00:00 GMT",
    }
    chosen = environ["QUERY_STRING"].split(",")
    start("200 OK", TEXT + [(name, value) for name, value in both.items() if name in chosen])
    return [b"own"]


def no_length(environ: Environ, start: Start) -> Any:
    kind = environ["QUERY_STRING"]
    if kind == "304":
        start("304 Not Modified", [("ETag", '"x"')])
        return []
    if kind == "201":
        start("201 Created", [])
        return iter(())
    if kind == "302":
        start("302 Found", [("Location", "/elsewhere")])
        return iter([b"moved"])
    start("200 OK", TEXT)
    return [b"page"] if kind == "block" else iter([b"page"])


class OnlyReads:
    """A stream of a blob store: read() and nothing more, and close()."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.file.read(size)
        return data

    def close(self) -> None:
        CLOSED.append("file")


class FieldFile(OnlyReads):
    """A file of a model: passes on what it does not have."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class ResourceIterator:
    """Has a descriptor, and is an iterator."""

    def __init__(self) -> None:
        self.file = open(FILE.name, "rb")  # noqa: SIM115

    def fileno(self) -> int:
        return self.file.fileno()

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self.file.read(10_000), b"")

    def read(self, size: int = -1) -> bytes:
        return self.file.read(size)

    def close(self) -> None:
        CLOSED.append("file")
        self.file.close()


def file(environ: Environ, start: Start) -> Any:
    wrap = environ["wsgi.file_wrapper"]
    kind = environ["QUERY_STRING"]
    opened: Any = open(FILE.name, "rb")  # noqa: SIM115
    length, status = len(DATA), "200 OK"
    result: Any
    if kind == "reader":
        result = wrap(opened, 8192)
    elif kind == "field":
        result = wrap(FieldFile(opened))
    elif kind == "reads":
        result = wrap(OnlyReads(opened), 4096)
    elif kind == "memory":
        result = wrap(io.BytesIO(DATA), 65536)
    elif kind == "resource":
        result = wrap(ResourceIterator())
    elif kind == "position":
        # Also what Python has read ahead.
        opened.read(100)
        length, status = 900, "206 Partial Content"
        result = wrap(opened)
    elif kind == "range-of-reads":
        opened.seek(100)
        length, status = 900, "206 Partial Content"
        result = wrap(OnlyReads(opened), 4096)
    else:
        # A framework asks for the wrapper, and then iterates it itself, from 100 to 1000.
        blocks = wrap(opened, 256)

        def some() -> Iterator[bytes]:
            whole = b"".join(block for block, _ in zip(blocks, range(4), strict=False))
            yield whole[100:1000]
            blocks.close()

        length, status, result = 900, "206 Partial Content", some()
    start(status, [("Content-Type", "application/octet-stream"), ("Content-Length", str(length))])
    return result


def read_elsewhere(environ: Environ, start: Start) -> Any:
    """A bridge to another process copies the body in a thread of its own, in small reads."""
    read, write = os.pipe()
    stream = environ["wsgi.input"]

    def copy() -> None:
        for block in iter(lambda: stream.read(100), b""):
            os.write(write, block)
        os.close(write)

    thread = threading.Thread(target=copy)
    thread.start()
    with os.fdopen(read, "rb") as pipe:
        body = pipe.read()
    thread.join()
    return answer(start, len(body))


def zope(environ: Environ, start: Start) -> Any:
    protocol = environ["SERVER_PROTOCOL"].split("/")[1]
    port = int(environ["SERVER_PORT"])
    path = environ["PATH_INFO"].encode("latin-1").decode("utf-8")
    return answer(start, [protocol, port, path])


class Stream:
    """Blocks until it is closed."""

    def __init__(self, fails: bool) -> None:
        self.fails, self.made = fails, 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self.made += 1
        if self.fails and self.made > 1:
            raise RuntimeError("after the first block")
        if self.made > 1:
            time.sleep(0.01)
        return b"block\n"

    def close(self) -> None:
        CLOSED.append("stream")


def stream(environ: Environ, start: Start) -> Any:
    length = [("Content-Length", "1000000")] if "length" in environ["QUERY_STRING"] else []
    start("200 OK", TEXT + length)
    return Stream("fail" in environ["QUERY_STRING"])


def closed(environ: Environ, start: Start) -> Any:
    found = list(CLOSED)
    CLOSED.clear()
    return answer(start, found)


def headers(environ: Environ, start: Start) -> Any:
    return answer(start, {k: v for k, v in environ.items() if k.startswith("HTTP_")})


def process(environ: Environ, start: Start) -> Any:
    return answer(start, [LOADED_BY, os.getpid(), STARTED, environ["wsgi.multiprocess"]])


ROUTES: dict[str, Callable[[Environ, Start], Any]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        rewind,
        strict,
        form,
        write_inside,
        write_only,
        late,
        empty_blocks,
        repeated,
        own_headers,
        no_length,
        file,
        read_elsewhere,
        zope,
        stream,
        closed,
        headers,
        process,
    )
}


def app(environ: Environ, start: Start) -> Iterable[bytes]:
    word = environ["PATH_INFO"].split("/")[1]
    result: Iterable[bytes] = ROUTES[word](environ, start)
    return result
