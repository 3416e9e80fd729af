"""A bare handler: PULL and PUB sockets, as handlers of others are made. It does nothing that it is not told."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import zmq
from support.closing import Closing

Value = str | list[str]
Socket = zmq.Socket[bytes]


@dataclass(frozen=True)
class Message:
    """A request or an event, taken apart. Texts are latin-1: each character is one byte."""

    ident: str
    conn: int
    path: str
    keys: dict[str, Value]
    body: bytes
    # Which of the handler's links it came by.
    link: int = field(default=0, compare=False)

    @property
    def event(self) -> str | None:
        """What kind of event it is, if it is one."""
        if self.path != "@*" or self.keys.get("METHOD") != "JSON":
            return None
        return str(json.loads(self.body)["type"])


def netstring(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Payload, tag, and what follows."""
    length, mark, rest = data.partition(b":")
    assert mark, f"no netstring: {data[:40]!r}"
    assert re.fullmatch(rb"0|[1-9][0-9]*", length), f"no length: {length!r}"
    size = int(length)
    assert len(rest) > size, f"too short: {data[:40]!r}"
    return rest[:size], rest[size : size + 1], rest[size + 1 :]


def no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), f"a key twice: {names}"
    return dict(pairs)


def json_keys(text: bytes, strict: bool) -> dict[str, Value]:
    """The keys of a JSON block. Mongrel2's may have raw control bytes; `strict` refuses them, and wants UTF-8.

    What the escapes of a legal block mean is a byte each.
    """
    if strict:
        text.decode("utf-8")
    keys: dict[str, Value] = json.loads(
        text.decode("latin-1"), strict=strict, object_pairs_hook=no_twins
    )
    return keys


def tnetstring_keys(data: bytes) -> dict[str, Value]:
    pairs: list[tuple[str, Value]] = []
    while data:
        name, tag, data = netstring(data)
        assert tag == b","
        value, tag, data = netstring(data)
        if tag == b",":
            pairs.append((name.decode("latin-1"), value.decode("latin-1")))
            continue
        assert tag == b"]", tag
        items = []
        while value:
            item, tag, value = netstring(value)
            assert tag == b","
            items.append(item.decode("latin-1"))
        pairs.append((name.decode("latin-1"), items))
    return no_twins(pairs)


def parse(data: bytes, strict: bool = False) -> Message:
    """Takes a message apart, and insists that nothing is left over."""
    ident, conn, path, rest = data.split(b" ", 3)
    assert re.fullmatch(rb"0|[1-9][0-9]*", conn), conn
    block, tag, rest = netstring(rest)
    body, comma, after = netstring(rest)
    assert (comma, after) == (b",", b""), data[-40:]
    assert tag in b",}", tag
    keys = tnetstring_keys(block) if tag == b"}" else json_keys(block, strict)
    return Message(ident.decode(), int(conn), path.decode("latin-1"), keys, body)


class Handler(Closing):
    """Connects to the two endpoints of one or several links."""

    def __init__(self, links: Sequence[tuple[str, str]], strict: bool = False) -> None:
        """`strict`: the front end promises legal JSON."""
        self.strict = strict
        self.context = zmq.Context()
        # What the front ends want to hear: their idents.
        self.topics: list[str] = []
        self.links = [self._connect(*link) for link in links]
        self.poller = zmq.Poller()
        for pull, _ in self.links:
            self.poller.register(pull, zmq.POLLIN)

    def _connect(self, send_spec: str, recv_spec: str) -> tuple[Socket, Socket]:
        pull, pub = self.context.socket(zmq.PULL), self.context.socket(zmq.XPUB)
        for socket in (pull, pub):
            socket.setsockopt(zmq.LINGER, 0)
        pub.connect(recv_spec)
        assert pub.poll(10_000, zmq.POLLIN), "the front end does not subscribe"
        topic = pub.recv()
        assert topic.startswith(b"\x01")
        self.topics.append(topic[1:].decode())
        pull.connect(send_spec)
        return pull, pub

    def close(self) -> None:
        for link in self.links:
            for socket in link:
                socket.close()
        self.context.term()

    def poll(self, seconds: float = 0.0) -> Message | None:
        """The next message, if one comes in time."""
        ready = dict(self.poller.poll(int(seconds * 1000)))
        for number, (pull, _) in enumerate(self.links):
            if pull in ready:
                return replace(parse(pull.recv(zmq.NOBLOCK), self.strict), link=number)
        return None

    def next(self, seconds: float = 10.0) -> Message:
        """The next message, which must come."""
        message = self.poll(seconds)
        assert message is not None, f"no message within {seconds} s"
        return message

    def drain(self, seconds: float = 0.0) -> list[Message]:
        """What comes within so many seconds."""
        until = time.monotonic() + seconds
        found = []
        while (message := self.poll(max(0.0, until - time.monotonic()))) is not None:
            found.append(message)
        return found

    def publish(self, data: bytes, link: int = 0) -> None:
        self.links[link][1].send(data)

    def reply(self, message: Message, payload: bytes) -> None:
        """Answers the connection that a message came from. An empty payload closes it."""
        self._send(message, b"%d" % message.conn, payload)

    def control(self, message: Message, payload: bytes) -> None:
        """An extended reply."""
        self._send(message, b"X %d" % message.conn, payload)

    def _send(self, message: Message, target: bytes, payload: bytes) -> None:
        data = b"%s %d:%s, %s" % (message.ident.encode(), len(target), target, payload)
        self.publish(data, message.link)
