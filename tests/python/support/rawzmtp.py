"""A handler's socket of our own bytes, for what libzmq never does: it says only what it is told to."""

from __future__ import annotations

import socket
import struct
import time

from support.closing import Closing


def frame(body: bytes, command: bool = False) -> bytes:
    flags = 4 if command else 0
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body


class RawPeer(Closing):
    """Connects to an `ipc://` endpoint as a socket of this type, which speaks ZMTP 3.`minor`."""

    def __init__(self, endpoint: str, kind: str, minor: int = 1) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(endpoint.removeprefix("ipc://"))
        self.buffer = b""
        self.ended = False
        greeting = b"\xff" + bytes(8) + b"\x7f\x03" + bytes([minor]) + b"NULL".ljust(20, b"\0")
        self.send(greeting.ljust(64, b"\0"))
        name = kind.encode()
        self.command(b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(name)) + name)
        while len(self.buffer) < 64:
            assert self.more()
        assert self.buffer[:1] == b"\xff"
        self.buffer = self.buffer[64:]
        assert self.next().startswith(b"\x05READY")

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def command(self, body: bytes) -> None:
        self.send(frame(body, command=True))

    def message(self, body: bytes) -> None:
        self.send(frame(body))

    def more(self) -> bool:
        try:
            got = self.socket.recv(65_536)
        except ConnectionResetError:
            got = b""
        self.buffer += got
        self.ended = not got
        return bool(got)

    def next(self) -> bytes:
        """The body of the next frame; empty at the end of the connection."""
        while True:
            if len(self.buffer) >= 2:
                long = self.buffer[0] & 2
                head = 9 if long else 2
                size = self.buffer[1:head]
                length = int.from_bytes(size, "big")
                if len(size) == head - 1 and len(self.buffer) >= head + length:
                    body = self.buffer[head : head + length]
                    self.buffer = self.buffer[head + length :]
                    return body
            if not self.more():
                return b""

    def rest(self, seconds: float = 10.0) -> list[bytes]:
        """All frames, to the end of the connection, which must come."""
        deadline = time.monotonic() + seconds
        frames = []
        while body := self.next():
            frames.append(body)
            assert time.monotonic() < deadline, f"it goes on: {frames[-3:]}"
        return frames
