"""An HTTP/1 client that sends exactly the bytes it is given and takes nothing on trust.

It reads one response at a time and keeps what comes after it, so pipelined answers can be told apart. Whatever is no
well-formed response is an AssertionError. Every wait has a deadline.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from support.closing import Closing

STATUS_LINE = re.compile(rb"(HTTP/1\.[01]) ([1-5][0-9][0-9]) ([\t\x20-\x7e\x80-\xff]*)")
HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")

Pairs = Iterable[tuple[str, str]]


class ClosedError(Exception):
    """The connection ended (or was reset) in the middle of a response or before it."""

    def __init__(self, got: bytes) -> None:
        super().__init__(f"connection closed after {got[:200]!r}")
        self.got = got


@dataclass
class Response:
    version: str
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes
    # How the end of the body was known: "length", "chunked", "close", or "none" where there is no body.
    framing: str

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        values = self.all(name)
        assert len(values) <= 1, f"{name} {len(values)} times in {self.headers}"
        return values[0] if values else None

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    method: str,
    target: str,
    headers: Pairs = (),
    body: bytes | None = None,
    version: str = "HTTP/1.1",
) -> bytes:
    """The bytes of a request. Host and Content-Length are added where they are needed and not given."""
    lines = list(headers)
    names = {name.lower() for name, _ in lines}
    if version == "HTTP/1.1" and "host" not in names:
        lines.insert(0, ("Host", "localhost"))
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        lines.append(("Content-Length", str(len(body))))
    head = f"{method} {target} {version}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines) + "\r\n"
    return head.encode("latin-1") + (body or b"")


class Client(Closing):
    """One TCP connection."""

    def __init__(
        self,
        port: int,
        seconds: float = 20.0,
        host: str = "127.0.0.1",
        receive_buffer: int | None = None,
        family: socket.AddressFamily = socket.AF_INET,
    ) -> None:
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        self.socket = socket.socket(family)
        self.socket.settimeout(seconds)
        if receive_buffer is not None:
            # Before connecting, for it decides about the window.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            self.socket.connect((host, port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Closes with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.deadline = time.monotonic() + self.seconds
        self.socket.settimeout(self.seconds)
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise ClosedError(b"") from None

    def send_request(
        self,
        method: str,
        target: str,
        headers: Pairs = (),
        body: bytes | None = None,
        version: str = "HTTP/1.1",
    ) -> None:
        self.send(request(method, target, headers, body, version))

    def ask(
        self,
        method: str,
        target: str,
        headers: Pairs = (),
        body: bytes | None = None,
        version: str = "HTTP/1.1",
    ) -> Response:
        self.send_request(method, target, headers, body, version)
        return self.response(method)

    def get(self, target: str, headers: Pairs = ()) -> Response:
        return self.ask("GET", target, headers)

    def more(self) -> bool:
        """Waits for bytes; false at the end of the stream."""
        left = self.deadline - time.monotonic()
        assert left > 0, f"no answer within {self.seconds} s; got {self.buffer[:500]!r}"
        self.socket.settimeout(left)
        try:
            got = self.socket.recv(256 * 1024)
        except TimeoutError:
            raise AssertionError(
                f"no answer within {self.seconds} s; got {self.buffer[:500]!r}"
            ) from None
        except ConnectionResetError:
            got = b""
        self.buffer += got
        return bool(got)

    def until(self, mark: bytes) -> bytes:
        """What comes before the mark; the mark is dropped."""
        while mark not in self.buffer:
            if not self.more():
                raise ClosedError(self.buffer)
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def exactly(self, count: int) -> bytes:
        # Collected in a list: a body of many megabytes must not be copied for each part that arrives.
        parts, have = [self.buffer], len(self.buffer)
        while have < count:
            self.buffer = b""
            if not self.more():
                raise ClosedError(b"".join(parts))
            parts.append(self.buffer)
            have += len(self.buffer)
        whole = b"".join(parts)
        self.buffer = whole[count:]
        return whole[:count]

    def rest(self) -> bytes:
        """Everything until the other side closes."""
        parts = [self.buffer]
        while True:
            self.buffer = b""
            if not self.more():
                return b"".join(parts)
            parts.append(self.buffer)

    def assert_closed(self) -> None:
        """The other side closes, and sends nothing more before it."""
        left = self.rest()
        assert left == b"", f"{len(left)} bytes too many: {left[:200]!r}"

    def head(self) -> tuple[str, int, str, list[tuple[str, str]]]:
        """Status line and headers of the next response."""
        lines = self.until(b"\r\n\r\n").split(b"\r\n")
        status = STATUS_LINE.fullmatch(lines[0])
        assert status, f"no status line: {lines[0][:200]!r}"
        headers = []
        for line in lines[1:]:
            header = HEADER.fullmatch(line)
            assert header, f"no header line: {line[:200]!r}"
            headers.append((header[1].decode(), header[2].decode("latin-1")))
        return status[1].decode(), int(status[2]), status[3].decode("latin-1"), headers

    def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty at its end."""
        size = self.until(b"\r\n")
        assert re.fullmatch(rb"[0-9A-Fa-f]+", size), f"no chunk size: {size!r}"
        data = self.exactly(int(size, 16))
        assert self.exactly(2) == b"\r\n"
        return data

    def chunks(self) -> list[bytes]:
        """The rest of a chunked body."""
        return list(iter(self.chunk, b""))

    def response(self, method: str = "GET") -> Response:
        """The next response, whole."""
        version, status, reason, headers = self.head()
        got = Response(version, status, reason, headers, b"", "none")
        length, coding = got.header("Content-Length"), got.header("Transfer-Encoding")
        assert length is None or coding is None, f"both framings: {headers}"
        if method == "HEAD" or status in (204, 304) or status < 200:
            return got
        if coding is not None:
            assert coding == "chunked"
            got.framing = "chunked"
            got.body = b"".join(self.chunks())
        elif length is not None:
            assert re.fullmatch(r"[0-9]+", length), length
            got.framing = "length"
            got.body = self.exactly(int(length))
        else:
            got.framing = "close"
            got.body = self.rest()
        return got


def ask(
    port: int,
    method: str,
    target: str,
    headers: Pairs = (),
    body: bytes | None = None,
    seconds: float = 20.0,
) -> Response:
    """One request on a connection of its own."""
    with Client(port, seconds) as client:
        return client.ask(method, target, headers, body)


def get(port: int, target: str, headers: Pairs = (), seconds: float = 20.0) -> Response:
    return ask(port, "GET", target, headers, seconds=seconds)
