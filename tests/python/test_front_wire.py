"""What handlers may say to our own front end, in order and out of order; and what becomes of it."""

from __future__ import annotations

import struct

import pytest
import zmq
from support.handler import Message, parse
from support.own import OK, OwnFront, OwnHandler, echo
from support.rawhttp import Client
from support.rawzmtp import RawPeer
from support.stage import Stage

CTL = {
    "keep-alive": b"27:3:ctl,17:10:keep-alive,0:~}]",
    "cancel": b"26:3:ctl,16:6:cancel,4:true!}]",
}


def netstring(data: bytes, tag: bytes = b",") -> bytes:
    return b"%d:%s%s" % (len(data), data, tag)


def ctl(*pairs: bytes) -> bytes:
    return netstring(netstring(b"ctl") + netstring(b"".join(pairs), b"}"), b"]")


def ask(handler: OwnHandler, client: Client, path: str, version: str = "HTTP/1.1") -> Message:
    client.send_request("GET", path, version=version)
    return handler.next()


def send(handler: OwnHandler, ident: str, targets: bytes, payload: bytes) -> None:
    handler.publish(b"%s %d:%s, %s" % (ident.encode(), len(targets), targets, payload))


def assert_it_lives(handler: OwnHandler, front: OwnFront) -> None:
    with Client(front.port) as client:
        message = ask(handler, client, "/lives")
        while message.event is not None:
            message = handler.next()
        handler.ok(message, b"yes")
        assert client.response("GET").body == b"yes"


def test_one_reply_for_many(stage: Stage) -> None:
    front = stage.own_front()
    body = b"x" * 2_000_000
    with (
        OwnHandler(front) as handler,
        Client(front.port) as new,
        Client(front.port, receive_buffer=4096) as slow,
        Client(front.port) as old,
    ):
        first = ask(handler, new, "/1")
        ids = [first.conn, ask(handler, slow, "/2").conn]
        ids.append(ask(handler, old, "/3", "HTTP/1.0").conn)
        unknown = max(ids) + 1000
        targets = b" ".join(b"%d" % conn for conn in [unknown, *ids])
        send(handler, first.ident, targets, OK % (len(body), body))
        # The slow one reads last, and nobody waits for it.
        assert new.response("GET").body == body
        response = old.response("GET")
        assert (response.body, response.header("Connection")) == (body, "close")
        assert slow.response("GET").body == body
        events = [message for message in handler.drain(0.05) if message.event == "disconnect"]
        assert unknown in [event.conn for event in events]
        # As many as fit a message, and one more.
        again = ask(handler, new, "/4")
        while again.event is not None:
            again = handler.next()
        for count in (129, 128):
            many = b" ".join(
                [b"%d" % again.conn, *(b"%d" % (unknown + n) for n in range(1, count))]
            )
            send(handler, again.ident, many, OK % (1, b"%d" % (count % 10)))
        assert new.response("GET").body == b"8"
        front.process.wait_for_err("a handler sent a message that is no reply")


def test_a_sign_of_life_puts_the_time_limit_off(stage: Stage) -> None:
    front = stage.own_front("--response-timeout", "600ms")
    with OwnHandler(front) as handler, Client(front.port) as client:
        message = ask(handler, client, "/")
        for _ in range(4):
            assert handler.poll(0.25) is None, "it was given up"
            handler.control(message, CTL["keep-alive"])
        handler.ok(message, b"late")
        assert client.response("GET").body == b"late"


@pytest.mark.parametrize("when", ["asked", "answering", "uploading", "idle"])
def test_a_handler_cuts_a_connection_off(stage: Stage, when: str) -> None:
    front = stage.own_front("--inline-limit", "1K")
    with OwnHandler(front) as handler, Client(front.port) as client:
        if when == "uploading":
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + b"x" * 2000)
            message = handler.next()
        else:
            message = ask(handler, client, "/")
        if when == "answering":
            handler.reply(message, OK % (5, b"he"))
            assert client.exactly(len(OK % (5, b"he"))).endswith(b"he")
        if when == "idle":
            handler.ok(message, b"")
            assert client.response("GET").status == 200
        handler.control(message, CTL["cancel"])
        client.assert_closed()
        # It knows, and is not told.
        assert_it_lives(handler, front)
        assert [m.event for m in handler.messages if m.conn == message.conn] == [None]


def test_control_messages_of_nonsense_do_nothing(stage: Stage) -> None:
    front = stage.own_front("--inline-limit", "1K")
    with OwnHandler(front) as handler, Client(front.port) as client:
        client.send_request("POST", "/", body=b"x" * 3000)
        message = handler.next()
        key = netstring(b"credits")
        for payload in (
            ctl(key + netstring(b"-5", b"#")),
            ctl(key + netstring(b"5000")),
            ctl(key + netstring(b"1.5", b"^")),
            ctl(key + netstring(b"99999999999999999999999", b"#")),
            ctl(key + b"0:~"),
            ctl(netstring(b"wonders") + netstring(b"1", b"#")),
            ctl(),
            ctl(key),
            b"",
            b"ctl",
            b"3:abc#",
            b"0:]",
            netstring(netstring(b"ctl") + netstring(b"true", b"!"), b"]"),
            netstring(netstring(b"other") + netstring(b"", b"}"), b"]"),
            ctl(key + netstring(b"5", b"#")) + b"x",
            b"9999999999999999999999999:",
        ):
            handler.control(message, payload)
        assert handler.poll(0.1) is None, "a part came for no credits"
        handler.control(message, ctl(key + netstring(b"9223372036854775807", b"#")))
        handler.control(message, ctl(key + netstring(b"9223372036854775807", b"#")))
        parts = message.body
        while len(parts) < 3000:
            parts += handler.next().body
        assert parts == b"x" * 3000
        handler.ok(message, b"ok")
        assert client.response("POST").body == b"ok"


def test_a_reply_for_another_front_end_reaches_nobody_here(stage: Stage) -> None:
    """The subscription is by prefix, and the other one's name begins with ours."""
    front = stage.own_front("--ident", "front")
    with OwnHandler(front) as handler, Client(front.port) as client:
        message = ask(handler, client, "/")
        for ident in ("front-2", "front2", "fron", "Front"):
            send(handler, ident, b"%d" % message.conn, OK % (5, b"other"))
        handler.ok(message, b"ours")
        assert client.response("GET").body == b"ours"


def test_replies_for_nobody_are_told_so(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front) as handler, Client(front.port) as client:
        message = ask(handler, client, "/")
        never = message.conn + 77
        send(handler, message.ident, b"%d" % never, b"HTTP/1.1 200 OK\r\n\r\n")
        told = handler.next()
        assert (told.event, told.conn) == ("disconnect", never)
        send(handler, message.ident, b"0 4294967295", b"hello")
        handler.ok(message, b"ok")
        assert client.response("GET").body == b"ok"


def test_two_handlers_may_answer_one_connection(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front) as one, Client(front.port) as client:
        message = ask(one, client, "/")
        with OwnHandler(front) as other:
            one.reply(message, OK % (10, b"first"))
            head = OK % (10, b"first")
            assert client.exactly(len(head)) == head
            other.reply(message, b"other")
            assert client.exactly(5) == b"other"
            front.wait_for_handlers(2)


@pytest.mark.parametrize("when", ["body", "queue"])
def test_bytes_that_nobody_asked_for_are_no_answer(stage: Stage, when: str) -> None:
    """A handler publishes for a connection whose next request has not reached anybody yet."""
    front = stage.own_front("--peer-window", "1")
    with OwnHandler(front) as handler, Client(front.port) as client, Client(front.port) as other:
        message = ask(handler, client, "/1")
        handler.ok(message, b"1")
        assert client.response("GET").body == b"1"
        if when == "queue":
            taken = ask(handler, other, "/busy")
            client.send_request("GET", "/2")
        else:
            client.send(b"POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
        # What answers this has read that.
        with Client(front.port) as third:
            assert third.ask("OPTIONS", "*").status == 200
        assert handler.poll(0.05) is None
        handler.ok(message, b"stale")
        client.assert_closed()
        if when == "queue":
            handler.ok(taken, b"busy")
            assert other.response("GET").body == b"busy"
        front.process.wait_for_err("bytes came that nobody had asked for")


def test_a_frame_too_large_ends_its_connection_alone(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front, echo), Client(front.port) as client:
        assert client.get("/1").body == b"/1 "
        with RawPeer(front.recv_spec, "PUB") as peer:
            peer.send(b"\x02" + struct.pack(">Q", (256 << 20) + 1))
            assert not any(
                body for body in peer.rest() if b"PING" not in body and b"SUB" not in body
            )
        with RawPeer(front.send_spec, "PULL") as peer:
            peer.send(b"\x02" + struct.pack(">Q", 8193))
            peer.rest()
        front.process.wait_for_err("more than are accepted")
        assert client.get("/2").body == b"/2 "


def test_requests_wait_until_their_answers_can_arrive(stage: Stage) -> None:
    front = stage.own_front()
    context = zmq.Context()
    pull, pub = context.socket(zmq.PULL), context.socket(zmq.PUB)
    try:
        for socket in (pull, pub):
            socket.setsockopt(zmq.LINGER, 0)
        with Client(front.port) as client:
            client.send_request("GET", "/early")
            pull.connect(front.send_spec)
            assert not pull.poll(200), "a handler without a way back has got a request"
            pub.connect(front.recv_spec)
            assert pull.poll(10_000)
            message = parse(pull.recv())
            target = b"%d" % message.conn
            answer = OK % (3, b"ok!")
            pub.send(b"%s %d:%s, %s" % (message.ident.encode(), len(target), target, answer))
            assert client.response("GET").body == b"ok!"
    finally:
        pull.close()
        pub.close()
        context.term()
