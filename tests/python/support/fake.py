"""A front end made of two ZeroMQ sockets, for what the real Mongrel2 never does or cannot be made to do in a test."""

from __future__ import annotations

import time
import uuid

import zmq
from mongrel2 import free_ports
from support import wire
from support.closing import Closing
from support.waiting import wait_for


class FakeFrontEnd(Closing):
    """PUSH and SUB, both bound, with one identity. Reads replies only when asked to."""

    def __init__(
        self, protocol: str = "json", subscribe: bool = True, ident: str | None = None
    ) -> None:
        self.protocol = protocol
        self.ident = ident or str(uuid.uuid4())
        self.context = zmq.Context()
        self.push = self.context.socket(zmq.PUSH)
        self.push.setsockopt(zmq.LINGER, 0)
        self.sub: zmq.Socket[bytes] | None = None
        self.replies: list[wire.Reply] = []
        for port in free_ports(20):
            try:
                self.push.bind(f"tcp://127.0.0.1:{port}")
            except zmq.ZMQError:
                continue
            break
        self.send_spec = self.push.getsockopt_string(zmq.LAST_ENDPOINT)
        self.recv_spec = f"tcp://127.0.0.1:{free_ports(1)[0]}"
        if subscribe:
            self.listen()

    def listen(self) -> None:
        """Binds the SUB, which says what we want to hear."""
        self.sub = self.context.socket(zmq.SUB)
        self.sub.setsockopt(zmq.LINGER, 0)
        self.sub.setsockopt_string(zmq.SUBSCRIBE, self.ident)
        self.sub.bind(self.recv_spec)

    def close(self) -> None:
        self.push.close()
        if self.sub is not None:
            self.sub.close()
        self.context.term()

    @property
    def options(self) -> list[str]:
        """The words that connect Lurcher to it."""
        return ["--recv", self.send_spec, "--send", self.recv_spec]

    def send(self, message: bytes, seconds: float = 15.0, blind: bool = False) -> None:
        """Waits until a handler is there that can take it.

        Meanwhile it looks at the SUB, without taking anything from it: libzmq sends a subscription only when its owner
        uses the socket. With `blind` it does not, as a single-threaded front end that first sends.
        """

        def look() -> bool:
            if self.sub is not None and not blind:
                self.sub.poll(0)
            return bool(self.push.poll(10, zmq.POLLOUT))

        wait_for("a handler to take the message", look, seconds)
        self.push.send(message, zmq.NOBLOCK)

    def request(
        self,
        conn: int,
        target: str = "/",
        method: str = "GET",
        headers: wire.Values | None = None,
        version: str = "HTTP/1.1",
        blind: bool = False,
    ) -> None:
        """An ordinary request without a body."""
        message = wire.request(
            self.ident, conn, target, method, headers, version=version, protocol=self.protocol
        )
        self.send(message, blind=blind)

    def disconnect(self, conn: int) -> None:
        self.send(wire.event(self.ident, conn, "disconnect", self.protocol))

    def receive(self, seconds: float) -> wire.Reply | None:
        """The next reply, or None after so many seconds."""
        assert self.sub is not None
        if not self.sub.poll(max(0, int(seconds * 1000)), zmq.POLLIN):
            return None
        reply = wire.parse_reply(self.sub.recv(zmq.NOBLOCK))
        assert reply.ident == self.ident
        self.replies.append(reply)
        return reply

    def of(self, conn: int) -> list[bytes]:
        """All ordinary payloads received for a connection so far, in order."""
        return [r.payload for r in self.replies if not r.extended and conn in r.targets]

    def closed_now(self, conn: int) -> bool:
        """Whether the connection has been closed; takes one more reply if not."""
        return b"" in self.of(conn) or (self.receive(0.05) is not None and b"" in self.of(conn))

    def collect(
        self, conn: int, seconds: float = 15.0, bodiless: bool = False
    ) -> tuple[bytes, bool]:
        """What a client of that connection has got once it has a whole response or is closed; and whether it was.

        A response that announces the close must be followed by it.
        """
        deadline = time.monotonic() + seconds

        def done() -> bool:
            payloads = self.of(conn)
            return b"" in payloads or is_whole(b"".join(payloads), bodiless)

        def look() -> bool:
            # Not one reply a look: there may be thousands for others.
            while not (found := done()) and time.monotonic() < deadline:
                if self.receive(0.1) is None:
                    break
            return found

        wait_for(f"a response for connection {conn}", look, seconds)
        head = b"".join(self.of(conn)).partition(b"\r\n\r\n")[0].lower()
        if b"\r\nconnection: close" in head:
            wait_for("the close that was announced", lambda: self.closed_now(conn), 5)
        payloads = self.of(conn)
        if b"" in payloads:
            end = payloads.index(b"")
            assert end == len(payloads) - 1, f"more after the close of connection {conn}"
        return b"".join(payloads), b"" in payloads


def is_whole(data: bytes, bodiless: bool = False) -> bool:
    """Whether a response with a length or in chunks is complete. One to HEAD is `bodiless` whatever it says."""
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark or bodiless:
        return bool(mark)
    lines = head.lower().split(b"\r\n")
    for line in lines:
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.split(b":")[1])
        if line.startswith(b"transfer-encoding:"):
            return body.endswith(b"0\r\n\r\n")
    return False
