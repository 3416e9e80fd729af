"""One Lurcher behind one made-up front end, asked as a client would ask: for test files that share it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import wire
from support.process import COMMAND
from support.rawhttp import Client, Response
from support.stage import Stage


class Heard(Client):
    """Reads a response from bytes that are all there."""

    def __init__(self, data: bytes) -> None:
        self.buffer = data

    def more(self) -> bool:
        return False


@dataclass
class Answer(Response):
    """A response, and whether the connection was closed after it."""

    closed: bool = False


@dataclass
class Served:
    """The pair. Each request is sent on a connection of its own unless one is named."""

    stage: Stage
    app: str
    options: Sequence[str] = ()
    protocol: str = "json"
    env: Mapping[str, str] = field(default_factory=dict)
    # The options say themselves where the application lies.
    own_path: bool = False
    command: Sequence[str] = (str(COMMAND),)

    def __post_init__(self) -> None:
        self.fake = self.stage.fake(self.protocol)
        words = [*self.fake.options, *self.options]
        if self.own_path:
            words += ["--wsgi-app", self.app]
        self.lurcher = self.stage.lurcher(
            *words,
            app=None if self.own_path else self.app,
            env=self.env,
            command=self.command,
        )
        self.numbers = itertools.count(1)

    def send(
        self,
        target: str = "/",
        method: str = "GET",
        headers: wire.Values | None = None,
        body: bytes = b"",
        version: str = "HTTP/1.1",
        conn: int | None = None,
        **more: Any,
    ) -> int:
        """Sends a request; gives the number of its connection."""
        number = next(self.numbers) if conn is None else conn
        self.fake.send(
            wire.request(
                self.fake.ident,
                number,
                target,
                method,
                headers,
                body,
                version,
                protocol=self.protocol,
                **more,
            )
        )
        return number

    def heard(self, conn: int, method: str = "GET", seconds: float = 20.0) -> tuple[bytes, bool]:
        """The bytes that a connection has got, once the response is whole or the connection closed."""
        return self.fake.collect(conn, seconds, bodiless=method == "HEAD")

    def answer(self, conn: int, method: str = "GET", seconds: float = 20.0) -> Answer:
        """The response on a connection that had one request. Fails if it is cut off, or if more follows."""
        data, closed = self.heard(conn, method, seconds)
        client = Heard(data)
        response = client.response(method)
        assert client.buffer == b"", client.buffer
        return Answer(**vars(response), closed=closed)

    def ask(
        self,
        target: str = "/",
        method: str = "GET",
        headers: wire.Values | None = None,
        body: bytes = b"",
        **more: Any,
    ) -> Answer:
        """A request and its response."""
        return self.answer(self.send(target, method, headers, body, **more), method)

    def text(self, target: str, **more: Any) -> str:
        """The body of a response that must be a 200."""
        answer = self.ask(target, **more)
        assert answer.status == 200, (answer, self.lurcher.err()[-3000:])
        return answer.body.decode("latin-1")

    def is_cut(self, conn: int) -> bool:
        """Whether the response on a connection broke off: closed, and not whole."""
        data, closed = self.heard(conn)
        head, _, body = data.partition(b"\r\n\r\n")
        whole = body.endswith(b"0\r\n\r\n") and b"chunked" in head
        return closed and data != b"" and not whole


def served(directory: Path, app: str, *options: str, **more: Any) -> Served:
    """On a stage of its own, which the caller clears away."""
    return Served(Stage(directory), app, options, **more)
