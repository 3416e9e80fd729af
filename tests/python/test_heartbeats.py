"""Handlers that vanish without a word: our own front end asks for signs of life, and believes in nobody without."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zmq
from support.own import OwnFront, OwnHandler
from support.rawhttp import Client
from support.rawzmtp import RawPeer
from support.stage import Stage
from support.waiting import wait_for

BEAT = ("--heartbeat", "200ms")

# Answers with its name and the path; writes down what it gets.
HANDLER = """
import sys, zmq
name, send_spec, recv_spec = sys.argv[1:]
context = zmq.Context()
pull, pub = context.socket(zmq.PULL), context.socket(zmq.PUB)
pull.connect(send_spec)
pub.connect(recv_spec)
while True:
    message = pull.recv()
    ident, conn, path, _ = message.split(b" ", 3)
    print(conn.decode(), path.decode(), flush=True)
    if path != b"@*":
        body = name.encode() + b" " + path
        head = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
        pub.send(b"%s %d:%s, %s%s" % (ident, len(conn), conn, head, body))
"""


@contextmanager
def handler_process(front: OwnFront, name: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-c", HANDLER, name, front.send_spec, front.recv_spec]
    with log.open("wb") as out, subprocess.Popen(words, stdout=out) as process:
        try:
            yield process
        finally:
            process.kill()


class TwoRoutes:
    """Our front end with another route: who connects there is nobody's fellow here, though it is this process too."""

    def __init__(self, stage: Stage, directory: Path) -> None:
        self.send_spec, self.recv_spec = f"ipc://{directory}/2s", f"ipc://{directory}/2r"
        self.front = stage.own_front(*BEAT, "--route", f"/2={self.send_spec},{self.recv_spec}")

    def wait_some_beats(self) -> None:
        """As many as it takes until a peer that is mute is gone."""
        with RawPeer(self.send_spec, "PULL") as mute:
            asked = mute.rest()
        assert len(asked) >= 2
        # Twelve beats are 2.4 s: 24 tenths.
        assert set(asked) == {b"\x04PING\x00\x18"}


def test_who_gives_no_sign_is_gone_and_who_knows_no_question_is_not(
    stage: Stage, tmp_path: Path
) -> None:
    both = TwoRoutes(stage, tmp_path)
    front = both.front
    with (
        RawPeer(both.recv_spec, "PUB", minor=0) as old_publishes,
        RawPeer(both.send_spec, "PULL", minor=0) as old,
        Client(front.port) as kept,
    ):
        kept.send_request("GET", "/2")
        ident, conn, _ = old.next().split(b" ", 2)
        with (
            RawPeer(front.recv_spec, "XPUB") as publishes,
            RawPeer(front.send_spec, "PULL") as mute,
            Client(front.port) as lost,
        ):
            publishes.command(b"\x04PONG")
            lost.send_request("GET", "/lost")
            began = time.monotonic()
            assert b" /lost " in mute.next()
            assert lost.response("GET").status == 502
            assert time.monotonic() - began < 5
            mute.rest()
            pings = [body for body in publishes.rest() if body.startswith(b"\x04PING")]
            assert pings[0] == b"\x04PING\0\0"
            assert set(pings[1:]) == {b"\x04PING\x00\x18"}
        front.process.wait_for_err(
            "a handler is gone with 1 requests: it gave no sign of life; see --heartbeat"
        )
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        old_publishes.message(b"%s %d:%s, %s" % (ident, len(conn), conn, answer))
        assert kept.response("GET").body == b"ok"
        assert b"PING" not in old.buffer


def test_a_stopped_handler_is_gone_and_welcome_when_it_comes_back(
    stage: Stage, tmp_path: Path
) -> None:
    front = stage.own_front(*BEAT)
    log = tmp_path / "handler"
    with handler_process(front, "a", log) as process, Client(front.port) as client:
        assert client.get("/1").body == b"a /1"
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        response = client.get("/2")
        assert (response.status, response.header("Connection")) == (502, "close")
        assert 0.3 < time.monotonic() - began < 5
        process.send_signal(signal.SIGCONT)
        front.wait_for_handlers(2)
        with Client(front.port) as other:
            assert other.get("/3").body == b"a /3"
            # It has answered what it had got as well, and that went nowhere.
            wait_for("the late answer", lambda: " /2\n" in log.read_text())
            assert other.get("/4").body == b"a /4"


def test_a_late_answer_is_no_part_of_the_second_handlers(stage: Stage) -> None:
    front = stage.own_front(*BEAT, "--retry", "idempotent")
    with (
        RawPeer(front.recv_spec, "XPUB") as publishes,
        RawPeer(front.send_spec, "PULL") as first,
        Client(front.port) as client,
    ):
        publishes.command(b"\x04PONG")
        front.wait_for_handlers(1)
        client.send_request("GET", "/1")
        ident, conn, _ = first.next().split(b" ", 2)
        first.rest()
        with OwnHandler(front) as second:
            message = second.next()
            assert (message.path, message.ident) == ("/1", ident.decode())
            assert message.conn != int(conn)
            late = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate"
            second.publish(b"%s %d:%s, %s" % (ident, len(conn), conn, late))
            gone = second.next()
            assert (gone.event, gone.conn) == ("disconnect", int(conn))
            second.ok(message, b"in time")
            assert client.response("GET").body == b"in time"
            client.send_request("GET", "/2")
            second.ok(second.next(), b"again")
            assert client.response("GET").body == b"again"


def test_who_takes_nothing_just_now_is_not_gone(stage: Stage, tmp_path: Path) -> None:
    """Its queue is full: its libzmq reads no PING, but its other connection answers."""
    both = TwoRoutes(stage, tmp_path)
    front = both.front
    with OwnHandler(front) as handler, Client(front.port) as client:
        client.send_request("GET", "/first")
        handler.ok(handler.next(), b"1")
        assert client.response("GET").body == b"1"
        full = handler.context.socket(zmq.PULL)
        full.setsockopt(zmq.RCVHWM, 1)
        full.setsockopt(zmq.LINGER, 0)
        full.connect(front.send_spec)
        # From now on it is asked for requests too.
        handler.links.append((full, handler.links[0][1]))
        front.wait_for_handlers(2)
        clients = [Client(front.port) for _ in range(12)]
        try:
            for number, other in enumerate(clients):
                other.send_request("POST", f"/p{number}", body=b"x" * 500_000)
            both.wait_some_beats()
            handler.poller.register(full, zmq.POLLIN)
            for _ in clients:
                message = handler.next()
                handler.ok(message, message.path.encode())
            for number, other in enumerate(clients):
                assert other.response("POST").body == b"/p%d" % number
        finally:
            for other in clients:
                other.close()
