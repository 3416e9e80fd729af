"""Lurcher's own front end for a test, and handlers of other people's for it: plain pyzmq sockets."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq
from support.process import Lurcher
from support.waiting import wait_for

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


class OwnFront:
    """`lurcher front` with one route, over Unix sockets in `directory`."""

    def __init__(self, directory: Path, options: Sequence[str] = (), path: str = "/") -> None:
        directory.mkdir(exist_ok=True)
        self.send_spec = f"ipc://{directory}/send"
        self.recv_spec = f"ipc://{directory}/recv"
        route = f"{path}={self.send_spec},{self.recv_spec}"
        words = ["front", "--bind", "127.0.0.1:0", "--route", route, *options]
        self.process = Lurcher(directory, words)
        said = self.process.wait_for_err("listening at 127.0.0.1:")
        found = re.search(r"listening at 127\.0\.0\.1:(\d+)", said)
        assert found, said
        self.port = int(found[1])

    @property
    def options(self) -> list[str]:
        """The words that connect Lurcher to it."""
        return ["--recv", self.send_spec, "--send", self.recv_spec]

    def wait_for_handlers(self, count: int) -> None:
        self.process.wait_for_err_count("a handler has come", count)


@dataclass
class Message:
    """A message of the front end."""

    ident: bytes
    conn: int
    path: bytes
    headers: dict[str, Any]
    body: bytes

    @property
    def is_disconnect(self) -> bool:
        return self.path == b"@*" and json.loads(self.body) == {"type": "disconnect"}


def text_of(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The first netstring: its text, its tag, and what follows."""
    digits, _, rest = data.partition(b":")
    length = int(digits)
    return rest[:length], rest[length : length + 1], rest[length + 1 :]


def tnetstring_pairs(block: bytes) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    while block:
        key, _, block = text_of(block)
        value, tag, block = text_of(block)
        if tag == b"]":
            items = []
            while value:
                item, _, value = text_of(value)
                items.append(item.decode("latin-1"))
            pairs[key.decode("latin-1")] = items
        else:
            pairs[key.decode("latin-1")] = value.decode("latin-1")
    return pairs


def parse(data: bytes) -> Message:
    ident, conn, path, rest = data.split(b" ", 3)
    block, tag, rest = text_of(rest)
    body, comma, end = text_of(rest)
    assert comma == b","
    assert end == b""
    headers = json.loads(block) if tag == b"," else tnetstring_pairs(block)
    return Message(ident, int(conn), path, headers, body)


class Handler:
    """A PULL and a PUB, connected as any handler's of Mongrel2. With `answer` it serves in a thread of its own."""

    def __init__(
        self, front: OwnFront, answer: Callable[[Handler, Message], None] | None = None
    ) -> None:
        self.context = zmq.Context()
        self.publisher = self.context.socket(zmq.XPUB)
        self.publisher.setsockopt(zmq.LINGER, 2000)
        self.publisher.connect(front.recv_spec)
        assert self.publisher.poll(10_000), "nobody has subscribed"
        self.topic = self.publisher.recv()
        assert self.topic[:1] == b"\x01"
        self.puller = self.context.socket(zmq.PULL)
        self.puller.setsockopt(zmq.LINGER, 0)
        self.puller.connect(front.send_spec)
        self.messages: list[Message] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if answer is not None:
            self._thread = threading.Thread(target=self._serve, args=(answer,), daemon=True)
            self._thread.start()

    def _serve(self, answer: Callable[[Handler, Message], None]) -> None:
        while not self._stop.is_set():
            if self.puller.poll(20):
                answer(self, self.receive())

    def receive(self, seconds: float = 10.0) -> Message:
        assert self.puller.poll(int(seconds * 1000)), "no message"
        message = parse(self.puller.recv())
        self.messages.append(message)
        return message

    def send(self, message: Message, payload: bytes, extended: bool = False) -> None:
        targets = (b"X " if extended else b"") + b"%d" % message.conn
        self.publisher.send(b"%s %d:%s, %s" % (message.ident, len(targets), targets, payload))

    def ok(self, message: Message, body: bytes) -> None:
        self.send(message, OK % (len(body), body))

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.puller.close()
        self.publisher.close()
        self.context.term()

    def __enter__(self) -> Handler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def echo(handler: Handler, message: Message) -> None:
    """Answers with the path and the body."""
    if message.path != b"@*":
        handler.ok(message, message.path + b" " + message.body)


def wait_for_messages(handler: Handler, count: int) -> list[Message]:
    return wait_for(
        f"{count} messages",
        lambda: handler.messages if len(handler.messages) >= count else [],
        10,
    )
