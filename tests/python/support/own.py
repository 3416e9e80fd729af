"""Lurcher's own front end for a test, and a handler of it as other people make them: plain pyzmq sockets."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from support.handler import Handler, Message
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


class OwnHandler(Handler):
    """A handler of it. With `answer` it serves in a thread of its own. It remembers what it has received."""

    def __init__(
        self, front: OwnFront, answer: Callable[[OwnHandler, Message], None] | None = None
    ) -> None:
        super().__init__([(front.send_spec, front.recv_spec)], strict=True)
        self.messages: list[Message] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if answer is not None:
            self._thread = threading.Thread(target=self._serve, args=(answer,), daemon=True)
            self._thread.start()

    def _serve(self, answer: Callable[[OwnHandler, Message], None]) -> None:
        while not self._stop.is_set():
            message = self.poll(0.02)
            if message is not None:
                answer(self, message)

    def poll(self, seconds: float = 0.0) -> Message | None:
        message = super().poll(seconds)
        if message is not None:
            self.messages.append(message)
        return message

    def ok(self, message: Message, body: bytes) -> None:
        self.reply(message, OK % (len(body), body))

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        super().close()


def echo(handler: OwnHandler, message: Message) -> None:
    """Answers with the path and the body."""
    if message.path != "@*":
        handler.ok(message, message.path.encode("latin-1") + b" " + message.body)


def wait_for_messages(handler: OwnHandler, count: int) -> list[Message]:
    return wait_for(
        f"{count} messages",
        lambda: handler.messages if len(handler.messages) >= count else [],
        10,
    )
