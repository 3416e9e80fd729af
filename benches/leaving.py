"""How many requests are lost when one of two instances leaves, again and again, under a steady load.

    PYTHONPATH=scripts:tests/python .venv/bin/python benches/leaving.py [requests] [per second] [times]

Twice: in front of the two is a plain libzmq PUSH with a SUB, and then the real Mongrel2. Each request has a number that
its answer must repeat. One instance is told to stop (SIGTERM), and started again when it has ended. It fails if an
answer is wrong or comes twice; how many are lost it only tells, for it is not Lurcher that loses them.
"""

from __future__ import annotations

import selectors
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import zmq
from support import wire
from support.fake import FakeFrontEnd
from support.process import APPS, Lurcher
from support.stage import Stage
from support.waiting import wait_for

REQUESTS = 100_000
RATE = 2_000
TIMES = 20
# A request without an answer for so long is lost.
PATIENCE = 5.0
CLIENTS = 32


class Count:
    """What became of requests, by number."""

    def __init__(self) -> None:
        """Begin with none."""
        self.open: dict[int, float] = {}
        self.ends: Counter[str] = Counter()
        self.lost: list[int] = []

    def sent(self, number: int) -> None:
        """Note a request."""
        self.open[number] = time.monotonic()

    def answered(self, number: int, body: bytes) -> None:
        """Note an answer, and whether it is the right one."""
        if self.open.pop(number, None) is None:
            self.ends["twice, or to the wrong client"] += 1
        else:
            self.ends["ok" if body == b"%d" % number else f"wrong: {body[:60]!r}"] += 1

    def give_up(self, number: int) -> None:
        """Note that an answer will not come."""
        if self.open.pop(number, None) is not None:
            self.lost.append(number)
            self.ends["lost"] += 1


def leave_again_and_again(
    start: Callable[[], Lurcher], leaver: Lurcher, times: int, pause: float, over: threading.Event
) -> None:
    """Stop an instance and start it again, so often, until it is over."""
    for _ in range(times):
        if over.wait(pause):
            break
        if leaver.stop() != 0:
            print(leaver.err(), file=sys.stderr)
        leaver = start()
        leaver.wait_for_err("receiving requests from", 30)
    over.wait()
    leaver.stop()


def push(front: FakeFrontEnd, count: Count, requests: int, rate: int) -> None:
    """Send requests to whoever is connected, and take the answers."""
    answers = front.sub or front.context.socket(zmq.SUB)
    began = time.monotonic()
    number = 0
    while number < requests or count.open:
        due = min(requests, int((time.monotonic() - began) * rate))
        while number < due:
            number += 1
            count.sent(number)
            message = wire.request(front.ident, number, f"/number/{number}", "GET", None)
            front.push.send(message)
        while answers.poll(0 if number < requests else 100):
            reply = wire.parse_reply(answers.recv())
            if not reply.extended and reply.payload:
                count.answered(int(reply.targets[0]), reply.payload.rpartition(b"\r\n")[2])
        if number == requests and time.monotonic() > began + requests / rate + PATIENCE:
            for lost in list(count.open):
                count.give_up(lost)
        time.sleep(0.0005)


class Connection:
    """One client: at most one request under way."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = 0
        self.data = b""

    def ask(self, number: int) -> None:
        """Send a request."""
        self.number = number
        self.data = b""
        self.socket.sendall(b"GET /number/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number)

    def answer(self) -> bytes | None:
        """Take what has come; give the body when it is whole."""
        self.data += self.socket.recv(65536) or b"\r\n\r\n(closed)"
        head, mark, body = self.data.partition(b"\r\n\r\n")
        if not mark:
            return None
        lines = head.lower().split(b"\r\n")
        lengths = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
        return None if lengths and len(body) < lengths[0] else body


def browse(port: int, count: Count, requests: int, rate: int) -> None:
    """Send requests over connections that are kept open, each when one of these is free."""
    selector = selectors.DefaultSelector()
    free: list[Connection] = []
    busy: dict[socket.socket, Connection] = {}
    began = time.monotonic()
    number = 0
    while number < requests or busy:
        due = min(requests, int((time.monotonic() - began) * rate))
        while number < due and (free or len(busy) < CLIENTS):
            if free:
                connection = free.pop()
            else:
                connection = Connection(port)
                selector.register(connection.socket, selectors.EVENT_READ)
            number += 1
            count.sent(number)
            connection.ask(number)
            busy[connection.socket] = connection
        for key, _ in selector.select(0.0005):
            connection = busy[key.fileobj]  # type: ignore[index]
            body = connection.answer()
            if body is not None:
                del busy[connection.socket]
                count.answered(connection.number, body)
                free.append(connection)
        now = time.monotonic()
        for connection in [c for c in busy.values() if now > count.open[c.number] + PATIENCE]:
            count.give_up(connection.number)
            selector.unregister(connection.socket)
            del busy[connection.socket]
            connection.socket.close()
    for connection in free:
        connection.socket.close()


def measure(what: str, stage: Stage, requests: int, rate: int, times: int) -> bool:
    """Run one of the two. Say whether all answers were right."""
    front = stage.fake() if what == "libzmq" else stage.mongrel2()
    words = [*front.options, "--wsgi-app", "probe:application", "--app-path", str(APPS)]

    def start() -> Lurcher:
        lurcher = Lurcher(stage.directory, words)
        stage.lurchers.append(lurcher)
        return lurcher

    stays, leaves = start(), start()
    if isinstance(front, FakeFrontEnd):
        # A SUB sends its subscription only when its owner looks at it.
        def connected() -> bool:
            if front.sub is not None:
                front.sub.poll(0)
            return all("receiving requests from" in it.err() for it in (stays, leaves))

        wait_for("both to be connected", connected, 30)
    else:
        for lurcher in (stays, leaves):
            lurcher.wait_for_err("receiving requests from", 30)
    count, over = Count(), threading.Event()
    # Stopping and starting take about a second.
    pause = requests / rate / times - 1.2
    leaving = threading.Thread(
        target=leave_again_and_again, args=(start, leaves, times, max(0.2, pause), over)
    )
    leaving.start()
    began = time.monotonic()
    if isinstance(front, FakeFrontEnd):
        push(front, count, requests, rate)
    else:
        browse(front.port, count, requests, rate)
    took = time.monotonic() - began
    over.set()
    leaving.join(60)
    leavings = sum("stopping" in lurcher.err() for lurcher in stage.lurchers) - 1
    ends = ", ".join(f"{what}: {n}" for what, n in sorted(count.ends.items()))
    print(f"{what}: {requests} requests in {took:.1f} s, {leavings} leavings: {ends}", flush=True)
    return count.ends["ok"] + count.ends["lost"] == requests


def main() -> int:
    """Measure both."""
    given = [int(word) for word in sys.argv[1:]]
    requests, rate, times = given + [REQUESTS, RATE, TIMES][len(given) :]
    right = True
    for what in ("libzmq", "Mongrel2"):
        with tempfile.TemporaryDirectory() as directory:
            stage = Stage(Path(directory))
            try:
                right &= measure(what, stage, requests, rate, times)
            finally:
                stage.clear_away()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
