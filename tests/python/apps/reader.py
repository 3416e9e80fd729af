"""An application that reads its body in all the ways there are."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from probe import answer, query, record

Environ = dict[str, Any]
StartResponse = Callable[..., Any]


def blocks(stream: Any, size: int = 65536) -> Iterator[bytes]:
    while block := stream.read(size):
        yield block


def raw_blocks(stream: Any) -> Iterator[bytes]:
    buffer = bytearray(5000)
    while count := stream.readinto(buffer):
        yield bytes(buffer[:count])


WAYS: dict[str, Callable[[Any], Iterable[bytes]]] = {
    "all": lambda stream: [stream.read()],
    "minus": lambda stream: [stream.read(-1)],
    "blocks": blocks,
    "bytes": lambda stream: blocks(stream, 997),
    "lines": iter,
    "readline": lambda stream: iter(stream.readline, b""),
    "short": lambda stream: iter(lambda: stream.readline(10), b""),
    "readlines": lambda stream: stream.readlines(),
    "hint": lambda stream: [b"".join(part) for part in iter(lambda: stream.readlines(999), [])],
    "readinto": raw_blocks,
    "buffered": lambda stream: blocks(io.BufferedReader(stream), 1000),
    "text": lambda stream: [
        line.encode("latin-1") for line in io.TextIOWrapper(stream, "latin-1", newline="")
    ],
}


def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    stream = environ["wsgi.input"]
    path = environ["PATH_INFO"]
    if path == "/digest":
        digest, count = hashlib.sha256(), 0
        pause = float(query(environ, "pause", "0"))
        if query(environ, "note"):
            record("reads")
        try:
            for block in WAYS[query(environ, "way", "blocks")](stream):
                digest.update(block)
                count += len(block)
                if pause:
                    time.sleep(pause)
        except OSError as error:
            record(f"{type(error).__name__} after {count}")
            raise
        assert stream.closed or stream.read(1) == b"", "beyond the end"
        text = f"{digest.hexdigest()} {count} {environ.get('CONTENT_LENGTH')}"
        return answer(start_response, text.encode())
    if path == "/echo":
        start_response("200 OK", [("Content-Type", "application/octet-stream")])
        return iter(lambda: stream.read1(8192), b"")
    if path == "/some":
        return answer(start_response, stream.read(int(query(environ, "bytes", "0"))))
    if path == "/die":
        stream.read(int(query(environ, "bytes", "1")))
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
    return answer(start_response, b"hello")
