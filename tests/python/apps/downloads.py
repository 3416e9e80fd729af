"""Downloads of every kind, by path and query: what the tests and `benches/bulk.py` fetch.

`/generated`, `/written`, `/blob` and `/file` send the same `size` bytes, which `pattern` gives to a client too.
Iterables that are not closed are counted, for `/open`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], None]]

BLOCK = 64 * 1024
BINARY = [("Content-Type", "application/octet-stream")]
# Twice, so that a block may begin anywhere in it.
TABLE = random.Random(20).randbytes(BLOCK) * 2

still_open = 0
ended: list[float] = []
lock = threading.Lock()


def block(number: int) -> bytes:
    """Block `number` of the pattern: neighbours differ."""
    at = number * 4099 % BLOCK
    return TABLE[at : at + BLOCK]


def pattern(size: int) -> Iterator[bytes]:
    """The first `size` bytes of the pattern, in blocks."""
    for number in range(size // BLOCK):
        yield block(number)
    if size % BLOCK:
        yield block(size // BLOCK)[: size % BLOCK]


def digest(size: int) -> str:
    """The sha256 of the first `size` bytes."""
    sha = hashlib.sha256()
    for piece in pattern(size):
        sha.update(piece)
    return sha.hexdigest()


class Counted:
    """An iterable that is counted until it is closed."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        """Count it."""
        global still_open
        self.blocks = blocks
        with lock:
            still_open += 1

    def __iter__(self) -> Iterator[bytes]:
        """Give the blocks."""
        return self.blocks

    def close(self) -> None:
        """Count it no more."""
        global still_open
        with lock:
            still_open -= 1
            ended.append(time.monotonic())


def ticking(environ: Environ, pause: float) -> Iterator[bytes]:
    """A line at a time until the client has left."""
    number = 0
    while not environ["lurcher.client_disconnected"]():
        number += 1
        yield b"data: %d\n\n" % number
        time.sleep(pause)


def pattern_file(size: int) -> Path:
    """A file with the pattern; made once for each size."""
    path = Path(tempfile.gettempdir()) / f"lurcher-pattern-{os.getuid()}-{size}"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        with made.open("wb") as file:
            file.writelines(pattern(size))
        made.rename(path)
    return path


def application(environ: Environ, start: Start) -> Iterable[bytes]:
    path, query = environ["PATH_INFO"], dict(parse_qsl(environ["QUERY_STRING"]))
    size = int(query.get("size", "0"))
    length = [("Content-Length", str(size))] if "length" in query else []
    if path == "/quick":
        start("200 OK", BINARY)
        return [b"quick"]
    if path == "/open":
        start("200 OK", BINARY)
        with lock:
            shown = {"open": still_open, "ended": ended[-100:], "now": time.monotonic()}
        return [json.dumps({**shown, "pid": os.getpid()}).encode()]
    if path == "/blob":
        start("200 OK", BINARY)
        return [blob(size)]
    put = start("200 OK", [*BINARY, *length])
    if path == "/generated":
        return Counted(pattern(size))
    if path == "/written":
        for piece in pattern(size):
            put(piece)
        return []
    if path == "/file":
        # The server closes it.
        file = open(query.get("path") or pattern_file(size), "rb")  # noqa: SIM115
        file.seek(int(query.get("from", "0")))
        wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](file)
        return wrapped
    if path == "/ticking":
        return Counted(ticking(environ, float(query.get("pause", "0.05"))))
    raise LookupError(path)


blobs: dict[int, bytes] = {}


def blob(size: int) -> bytes:
    """The same object each time, as a cached one is."""
    if size not in blobs:
        blobs[size] = b"".join(pattern(size))
    return blobs[size]
