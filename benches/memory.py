"""Whether a worker's memory stays level: many requests of mixed kinds, and what the worker holds at 20, 60 and 100 %.

    PYTHONPATH=scripts:tests/python .venv/bin/python benches/memory.py [requests]

This file is both the bench and the application that it measures. It fails if the worker has grown by more than the
allowance between the first look and the last: before the first, caches of all kinds fill.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

REQUESTS = 200_000
LOOKS = (20, 60, 100)
AT_ONCE = 100
ALLOWANCE_KIB = 1024

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], None]]
TEXT = [("Content-Type", "text/plain")]


# ---- The application


class Closing:
    """Blocks with a close()."""

    def __init__(self, blocks: list[bytes]) -> None:
        """Take the blocks."""
        self.blocks = iter(blocks)

    def __iter__(self) -> Iterator[bytes]:
        """Give the blocks."""
        return self.blocks

    def close(self) -> None:
        """Be closed."""


def _endless() -> Iterator[bytes]:
    while True:
        yield b"x" * 4096
        time.sleep(0.0005)


def application(environ: Environ, start: Start) -> Iterable[bytes]:
    """One path for each kind."""
    kind = environ["PATH_INFO"]
    if kind == "/raises":
        large = [bytearray(50_000), environ, start]
        raise RuntimeError(f"with {len(large)} large locals")
    if kind == "/objects":
        gc.collect()
        types = Counter(type(thing).__name__ for thing in gc.get_objects())
        shown = {"objects": sum(types.values()), "None": sys.getrefcount(None), "pid": os.getpid()}
        start("200 OK", TEXT)
        return [json.dumps(shown).encode()]
    put = start("200 OK", [*TEXT, ("X-Kind", kind)])
    if kind == "/post":
        return [environ["wsgi.input"].read()]
    if kind == "/closing":
        return Closing([b"a", b"", b"b"])
    if kind == "/write":
        put(b"written")
        return []
    if kind == "/file":
        result: Iterable[bytes] = environ["wsgi.file_wrapper"](io.BytesIO(b"f" * 20_000))
        return result
    if kind == "/left":
        return _endless()
    if kind == "/raises-late":
        return (block if block else 1 // 0 for block in (b"a", b""))  # type: ignore[misc]
    return [b"hello"]


# ---- The bench

KINDS: list[dict[str, Any]] = [
    {"target": "/plain"},
    {"target": "/plain", "method": "HEAD"},
    {"target": "/plain?" + "q" * 500, "headers": {b"cookie": b"c" * 500}},
    {"target": "/post", "method": "POST", "body": b"b" * 3000},
    {"target": "/closing"},
    {"target": "/write"},
    {"target": "/file"},
    {"target": "/raises"},
    {"target": "/raises-late"},
    {"target": "/plain", "version": "HTTP/1.0"},
]
# One in so many is a stream that its client leaves.
LEFT = 100


def _resident_kib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


class _Bench:
    """Keeps AT_ONCE requests at work."""

    def __init__(self, site: Any) -> None:
        self.site, self.fake = site, site.fake
        self.waiting: dict[int, list[bytes]] = {}
        self.bodiless: set[int] = set()
        self.left: set[int] = set()

    def ask(self, number: int) -> None:
        from support import wire

        if number % LEFT == 0:
            options: dict[str, Any] = {"target": "/left"}
            self.left.add(number)
        else:
            # Each kind also with a header that no other request has.
            options = dict(KINDS[number % len(KINDS)])
            options["headers"] = {**options.get("headers", {}), b"x-%d" % number: b"%d" % number}
        if options.get("method") == "HEAD":
            self.bodiless.add(number)
        self.waiting[number] = []
        self.fake.push.send(wire.request(self.fake.ident, number, **options))

    def hear(self) -> None:
        """Takes one reply."""
        from support import wire
        from support.fake import is_whole

        reply = wire.parse_reply(self.fake.sub.recv())
        for conn in reply.targets:
            parts = self.waiting.get(conn)
            if parts is None:
                continue
            parts.append(reply.payload)
            if conn in self.left:
                self.fake.push.send(wire.event(self.fake.ident, conn, "disconnect"))
                self.left.discard(conn)
                del self.waiting[conn]
            elif reply.payload == b"" or is_whole(b"".join(parts), conn in self.bodiless):
                del self.waiting[conn]

    def run(self, first: int, last: int) -> None:
        for number in range(first, last):
            while len(self.waiting) >= AT_ONCE:
                self.hear()
            self.ask(number)
        while self.waiting:
            self.hear()


def main(requests: int) -> int:
    """Measure, print a line for each look. Give the exit code."""
    from support.served import Served
    from support.stage import Stage

    with tempfile.TemporaryDirectory() as place:
        stage = Stage(Path(place))
        options = ["--app-path", str(Path(__file__).resolve().parent)]
        site = Served(stage, "memory:application", options, own_path=True)
        site.lurcher.wait_for_workers(1)
        bench = _Bench(site)
        done, looks = 0, []
        began = time.monotonic()
        for percent in LOOKS:
            goal = requests * percent // 100
            bench.run(done + 1, goal + 1)
            done = goal
            shown = site.ask("/objects", conn=1_000_000_000 + percent).json()
            looks.append((_resident_kib(shown["pid"]), shown["objects"], shown["None"]))
            print(
                f"{percent:3} % ({done} requests, {time.monotonic() - began:.0f} s): "
                f"worker {looks[-1][0]} KiB resident, instance {_resident_kib(site.lurcher.pid)} KiB, "
                f"{shown['objects']} objects, {shown['None']} references to None",
                flush=True,
            )
        stage.clear_away()
    growth = looks[-1][0] - looks[0][0]
    print(f"the worker grew by {growth} KiB, {looks[-1][1] - looks[0][1]} objects")
    return 1 if growth > ALLOWANCE_KIB else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS))
