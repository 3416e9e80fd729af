"""Plays the instance to a real worker process: frames over a socketpair, a board, and nothing else."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SETUP, REQUEST, GONE, ACK, RECALL, DRAIN = 1, 2, 3, 4, 5, 6
READY, LOAD_FAILED, DATA, END, RECALLED, LEAVING = 16, 17, 18, 19, 20, 21
ASK_STACKS, PING, STACKS, PONG = 41, 42, 45, 46
MORE = 1
OK, APP_ERROR, CUT, CLIENT_GONE, REFUSED = range(5)

HEAD = struct.Struct("<IBBHQ")
END_FIXED = struct.Struct("<BBHIQQ")
WINDOW = 256 * 1024
SENDER = "34f9ceee-cd52-4b7f-b197-88bf2f0ec378"
BOARD_MAGIC = 0x4C75726368657201


@dataclass
class Frame:
    kind: int
    flags: int
    ticket: int
    payload: bytes


@dataclass
class Answer:
    """Everything that came for one ticket."""

    data: bytes
    frames: list[Frame]
    outcome: int
    keep: bool
    status: int
    body_bytes: int
    access: bytes

    @property
    def head(self) -> list[str]:
        return self.data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]

    def header(self, name: str) -> str | None:
        """The only value of a header."""
        lines = [line.partition(": ") for line in self.head[1:]]
        values = [value for key, _, value in lines if key.lower() == name.lower()]
        assert len(values) <= 1, values
        return values[0] if values else None


def netstring(payload: bytes) -> bytes:
    return b"%d:%b," % (len(payload), payload)


def message(
    path: str = "/",
    *,
    method: str = "GET",
    version: str = "HTTP/1.1",
    body: bytes = b"",
    query: str | None = None,
    conn: int = 7,
    headers: dict[str, Any] | None = None,
) -> bytes:
    """A request as Mongrel2 sends it."""
    given: dict[str, Any] = {"PATH": path, "host": "t"}
    if body:
        given["content-length"] = str(len(body))
    given.update(headers or {})
    given.update({"METHOD": method, "VERSION": version, "PATTERN": "/", "URL_SCHEME": "http"})
    given["URI"] = path if query is None else f"{path}?{query}"
    if query is not None:
        given["QUERY"] = query
    given["REMOTE_ADDR"] = "127.0.0.1"
    block = json.dumps(given, ensure_ascii=False).encode("latin-1")
    return f"{SENDER} {conn} {path} ".encode("latin-1") + netstring(block) + netstring(body)


@dataclass
class Instance:
    """The instance's end."""

    app_path: Path
    app: str
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Instance:
        self.ticket = 0
        self.pending: list[Frame] = []
        self.buffer = b""
        ours, theirs = socket.socketpair()
        ours.settimeout(30)
        self.socket = ours
        threads = self.settings.get("threads", 2)
        self.board = os.memfd_create("board", 0)
        self.slots = threads
        os.write(self.board, struct.pack("<QQQ", BOARD_MAGIC, threads, 0) + bytes(16 * threads))
        command = [sys.executable, "-m", "lurcher.worker"]
        command += ["--bridge-fd", str(theirs.fileno()), "--board-fd", str(self.board)]
        self.stderr_file = open(self.app_path / "stderr.txt", "w+b")
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno(), self.board],
            stderr=self.stderr_file,
            env={**os.environ, **self.environment},
        )
        theirs.close()
        settings = {
            "wsgi_app": self.app,
            "app_path": str(self.app_path),
            "threads": threads,
            "script_name": "",
            "server_name": None,
            "underscore_headers": "drop",
            "lint": False,
            "access_log": True,
            "log_format": "text",
            "log_level": "debug",
            "multiprocess": False,
            "worker": 1,
            "graceful_timeout_ms": 5000,
            **self.settings,
        }
        self.send(SETUP, 0, json.dumps(settings).encode())
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.stderr_file.close()
            os.close(self.board)

    def send(self, kind: int, ticket: int = 0, payload: bytes = b"") -> None:
        self.socket.sendall(HEAD.pack(len(payload), kind, 0, 0, ticket) + payload)

    def request(self, wire: bytes) -> int:
        self.ticket += 1
        self.send(REQUEST, self.ticket, wire)
        return self.ticket

    def read(self) -> Frame | None:
        """The next frame, or None at the end."""
        while True:
            if len(self.buffer) >= HEAD.size:
                length, kind, flags, _, ticket = HEAD.unpack_from(self.buffer)
                if len(self.buffer) >= HEAD.size + length:
                    payload = self.buffer[HEAD.size : HEAD.size + length]
                    self.buffer = self.buffer[HEAD.size + length :]
                    return Frame(kind, flags, ticket, payload)
            more = self.socket.recv(1 << 20)
            if not more:
                return None
            self.buffer += more

    def take(self, kind: int, ticket: int | None = None) -> Frame:
        """The next frame of a kind; others wait for their turn."""
        for frame in self.pending:
            if frame.kind == kind and ticket in (None, frame.ticket):
                self.pending.remove(frame)
                return frame
        while (new := self.read()) is not None:
            if new.kind == kind and ticket in (None, new.ticket):
                return new
            self.pending.append(new)
        raise AssertionError(f"the worker left without frame {kind}; log:\n{self.log()}")

    def ready(self) -> Instance:
        self.take(READY)
        return self

    def answer(self, ticket: int, *, ack: bool = True) -> Answer:
        """All frames of a ticket up to its end, acknowledged as they come."""
        data: list[Frame] = []
        while True:
            mine = [frame for frame in self.pending if frame.ticket == ticket]
            for frame in mine:
                self.pending.remove(frame)
            if not mine:
                new = self.read()
                assert new is not None, f"the worker left; log:\n{self.log()}"
                mine = [new]
            for frame in mine:
                if frame.ticket != ticket:
                    self.pending.append(frame)
                elif frame.kind == DATA:
                    data.append(frame)
                    if ack:
                        self.send(ACK, ticket, struct.pack("<Q", len(frame.payload)))
                else:
                    assert frame.kind == END
                    outcome, keep, status, _, _, body = END_FIXED.unpack_from(frame.payload)
                    text = b"".join(part.payload for part in data)
                    line = frame.payload[END_FIXED.size :]
                    return Answer(text, data, outcome, keep == 1, status, body, line)

    def get(self, path: str = "/", **options: Any) -> Answer:
        return self.answer(self.request(message(path, **options)))

    def begun(self) -> int:
        """The board's mark: the highest ticket that was begun."""
        number: int = struct.unpack("<Q", os.pread(self.board, 8, 16))[0]
        return number

    def wait_until_begun(self, ticket: int) -> None:
        deadline = time.monotonic() + 10
        while self.begun() < ticket:
            assert time.monotonic() < deadline, "not begun"
            time.sleep(0.005)

    def drain(self) -> int:
        """Ends the worker in order; gives its exit code."""
        self.send(DRAIN)
        while (frame := self.read()) is not None:
            self.pending.append(frame)
        return self.process.wait(20)

    def log(self) -> str:
        self.stderr_file.flush()
        return (self.app_path / "stderr.txt").read_text("utf-8", "replace")

    def wait_for_log(self, text: str) -> str:
        """The log, once `text` stands in it."""
        deadline = time.monotonic() + 10
        while text not in (log := self.log()):
            assert time.monotonic() < deadline, f"{text!r} is not in the log:\n{log}"
            time.sleep(0.01)
        return log
