"""Two ways to one Lurcher: wire messages of a made-up front end, and HTTP through the real Mongrel2.

Both give the same `Seen`, so that one test can go either way. Every response whose connection stays open is followed by
a second request on the same connection: a byte too many or too few in the first would show in the second.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from support import wire
from support.fake import FakeFrontEnd
from support.front import FrontEnd
from support.process import Lurcher
from support.rawhttp import HEADER, STATUS_LINE, Client, request
from support.stage import Stage
from support.waiting import wait_for

Pairs = Sequence[tuple[str, str]]

SECONDS = 20.0
AFTER = "/after"
# What every application of these tests says there; see apps/afterwards.py.
AFTER_BODY = b"and after it"


@dataclass
class Seen:
    """One response, as its client sees it."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes
    # How its end was known: "none" (it has no body), "length", "chunked", "close"; or "cut": it has no end.
    framing: str
    # The sizes of its chunks.
    chunks: list[int] = field(default_factory=list)
    # Whether the connection went on afterwards, and was in step.
    kept: bool = False

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        values = self.all(name)
        assert len(values) <= 1, f"{name} {len(values)} times in {self.headers}"
        return values[0] if values else None


def read_chunks(data: bytes) -> tuple[list[bytes], bytes | None]:
    """The chunks that are there, and what follows the last one; None if the last one is not there."""
    chunks: list[bytes] = []
    while True:
        size, mark, rest = data.partition(b"\r\n")
        if not mark:
            return chunks, None
        assert re.fullmatch(rb"[0-9a-fA-F]+", size), f"no chunk size: {size!r}"
        length = int(size, 16)
        if len(rest) < length + 2:
            return chunks, None
        assert rest[length : length + 2] == b"\r\n"
        if length == 0:
            return chunks, rest[2:]
        chunks.append(rest[:length])
        data = rest[length + 2 :]


def read_response(data: bytes, method: str, ended: bool) -> tuple[Seen, bytes] | None:
    """The first response in the bytes, and what follows it; None if more must come."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    if not mark:
        assert not ended, f"closed without an answer: {data!r}"
        return None
    lines = head.split(b"\r\n")
    status = STATUS_LINE.fullmatch(lines[0])
    assert status, f"no status line: {lines[0]!r}"
    headers = []
    for line in lines[1:]:
        match = HEADER.fullmatch(line)
        assert match, f"no header line: {line!r}"
        headers.append((match[1].decode(), match[2].decode("latin-1")))
    seen = Seen(int(status[2]), status[3].decode("latin-1"), headers, b"", "none")
    length, coding = seen.header("Content-Length"), seen.header("Transfer-Encoding")
    assert length is None or coding is None, f"both framings: {headers}"
    if method == "HEAD" or seen.status in (204, 304) or seen.status < 200:
        return seen, rest
    if coding is not None:
        assert coding == "chunked"
        chunks, after = read_chunks(rest)
        seen.body, seen.chunks = b"".join(chunks), [len(chunk) for chunk in chunks]
        seen.framing = "chunked" if after is not None else "cut"
        whole = after is not None
        rest = after or b""
    elif length is not None:
        assert length.isdecimal(), length
        whole = len(rest) >= int(length)
        seen.body, rest = rest[: int(length)], rest[int(length) :]
        seen.framing = "length" if whole else "cut"
    else:
        whole = ended
        seen.body, seen.framing, rest = rest, "close", b""
    return (seen, rest) if whole or ended else None


class Talk(Protocol):
    """One client connection."""

    def ask(
        self, method: str, target: str, headers: Pairs, body: bytes | None, version: str
    ) -> None: ...

    def received(self) -> tuple[bytes, bool]:
        """All bytes so far, and whether the connection has ended."""

    def more(self) -> None:
        """Waits a little for more."""

    def leave(self) -> None:
        """The client goes away."""


class WireTalk:
    """A connection of the made-up front end."""

    def __init__(self, front: FakeFrontEnd, conn: int) -> None:
        self.front, self.conn = front, conn

    def ask(
        self, method: str, target: str, headers: Pairs, body: bytes | None, version: str
    ) -> None:
        values: dict[bytes, bytes | list[bytes]] = {}
        if body is not None:
            values[b"content-length"] = b"%d" % len(body)
        for name, value in headers:
            key, text = name.lower().encode("latin-1"), value.encode("latin-1")
            # Mongrel2 overwrites this one with what it knows.
            if key == b"x-forwarded-for":
                continue
            before = values.get(key)
            if before is None or (key == b"content-length" and body is not None):
                values[key] = text
            elif isinstance(before, list):
                before.append(text)
            else:
                values[key] = [before, text]
        self.send(method, target, values, body or b"", version)

    def send(
        self,
        method: str,
        target: str,
        values: wire.Values,
        body: bytes = b"",
        version: str = "HTTP/1.1",
        scheme: bytes = b"http",
    ) -> None:
        front = self.front
        front.send(
            wire.request(
                front.ident,
                self.conn,
                target,
                method,
                values,
                body,
                version,
                front.protocol,
                scheme,
            )
        )

    def received(self) -> tuple[bytes, bool]:
        payloads = self.front.of(self.conn)
        ended = b"" in payloads
        assert not ended or payloads.index(b"") == len(payloads) - 1, "more after the close"
        return b"".join(payloads), ended

    def more(self) -> None:
        self.front.receive(0.1)

    def leave(self) -> None:
        self.front.disconnect(self.conn)


class HttpTalk:
    """A connection to Mongrel2."""

    def __init__(self, port: int) -> None:
        self.client = Client(port, SECONDS)
        self.ended = False

    def ask(
        self, method: str, target: str, headers: Pairs, body: bytes | None, version: str
    ) -> None:
        self.client.send(request(method, target, headers, body, version))

    def received(self) -> tuple[bytes, bool]:
        return self.client.buffer, self.ended

    def more(self) -> None:
        self.ended = not self.client.more()

    def leave(self) -> None:
        self.client.close()


class Way:
    """Where a test sends its requests."""

    def __init__(
        self, front: FakeFrontEnd | FrontEnd, numbers: Iterator[int], after: str = AFTER
    ) -> None:
        self.front, self.numbers, self.after = front, numbers, after

    @property
    def is_wire(self) -> bool:
        return isinstance(self.front, FakeFrontEnd)

    def talk(self) -> WireTalk | HttpTalk:
        """A new connection."""
        if isinstance(self.front, FakeFrontEnd):
            return WireTalk(self.front, next(self.numbers))
        return HttpTalk(self.front.port)

    def ask(
        self,
        target: str,
        method: str = "GET",
        headers: Pairs = (),
        body: bytes | None = None,
        version: str = "HTTP/1.1",
    ) -> Seen:
        """The response to one request on a connection of its own; see the head of this file."""
        talk = self.talk()
        talk.ask(method, target, headers, body, version)
        return self.finish(talk, method, version, headers)

    def finish(
        self, talk: WireTalk | HttpTalk, method: str, version: str = "HTTP/1.1", headers: Pairs = ()
    ) -> Seen:
        """Reads the response, and checks that its connection is in step or closed, as the response says."""
        seen, rest = wait_for_response(talk, method, 0)
        said = (seen.header("Connection") or "").lower()
        ends = seen.framing in ("close", "cut") or said == "close" or seen.status < 200
        if ends:
            data, ended = talk.received()
            deadline = time.monotonic() + SECONDS
            while not ended and time.monotonic() < deadline:
                talk.more()
                data, ended = talk.received()
            assert ended, f"the close does not come: {seen}"
            if seen.framing != "close":
                start = len(data) - len(rest)
                assert data[start:] == rest == b"", f"bytes too many: {data[start:]!r}"
        else:
            assert rest == b"", f"bytes too many: {rest!r}"
            start = len(talk.received()[0])
            keep = [("Connection", "keep-alive")] if version == "HTTP/1.0" else []
            talk.ask("GET", self.after, keep, None, version)
            after, _ = wait_for_response(talk, "GET", start)
            assert after.body == AFTER_BODY, f"out of step: {after}"
            seen.kept = True
        if isinstance(talk, HttpTalk):
            talk.leave()
        return seen


def wait_for_response(talk: Talk, method: str, start: int) -> tuple[Seen, bytes]:
    deadline = time.monotonic() + SECONDS
    while True:
        data, ended = talk.received()
        found = read_response(data[start:], method, ended)
        if found is not None:
            return found
        assert time.monotonic() < deadline, f"no whole response: {data[start:][:500]!r}"
        talk.more()


class Site:
    """One Lurcher behind two front ends."""

    def __init__(
        self,
        directory: Path,
        app: str,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        after: str = AFTER,
    ) -> None:
        self.stage = Stage(directory)
        numbers = itertools.count(1)
        self.fake = self.stage.fake("json")
        self.front = self.stage.mongrel2("tnetstring")
        self.wire = Way(self.fake, numbers, after)
        self.http = Way(self.front, numbers, after)
        self.lurcher: Lurcher = self.stage.lurcher(
            *self.fake.options, *self.front.options, *options, app=app, env=env
        )

    def end(self) -> None:
        assert self.lurcher.is_alive(), f"it ended on its own; it said:\n{self.lurcher.err()}"
        self.stage.clear_away()


class Log:
    """What Lurcher says from now on."""

    def __init__(self, site: Site) -> None:
        self.site, self.start = site, len(site.lurcher.err())

    def said(self) -> str:
        return self.site.lurcher.err()[self.start :]

    def wait_for(self, words: str) -> None:
        wait_for(f"{words!r} in the log", lambda: words in self.said())
