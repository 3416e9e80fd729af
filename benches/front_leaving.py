"""A leaving instance loses nothing: numbered requests at a steady rate through our own front end to two instances, of
which one is stopped and started again and again.

Each answer must repeat the number of its request, and the application writes down each number it is called with: what
is lost, and what ran twice, is counted. Exits with 1 if either is.
"""

from __future__ import annotations

import argparse
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = Path(sys.prefix) / "bin" / "lurcher"
APPS = ROOT / "tests" / "python" / "apps"


def wait_for(what: str, look: Callable[[], object], seconds: float = 30.0) -> None:
    """Until it is so."""
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited in vain for {what}")
        time.sleep(0.02)


class Clients:
    """Connections that send one request at a time, as many as are due."""

    def __init__(self, port: int, connections: int) -> None:
        """All are opened now."""
        self.selector = selectors.DefaultSelector()
        self.port = port
        self.idle: deque[socket.socket] = deque(self.connect() for _ in range(connections))
        self.asked: dict[socket.socket, int] = {}
        self.failed: Counter[str] = Counter()
        self.answered = 0

    def connect(self) -> socket.socket:
        """A new connection."""
        client = socket.create_connection(("127.0.0.1", self.port), 10)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setblocking(False)
        self.selector.register(client, selectors.EVENT_READ)
        return client

    def again(self, client: socket.socket) -> None:
        """A new connection in the place of one."""
        self.selector.unregister(client)
        client.close()
        self.idle.append(self.connect())

    def send(self, number: int) -> None:
        """Asks for a number."""
        client = self.idle.popleft()
        client.send(b"GET /number/%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
        self.asked[client] = number

    def receive(self, seconds: float) -> None:
        """Takes the answers that are there."""
        for key, _ in self.selector.select(seconds):
            client = key.fileobj
            if not isinstance(client, socket.socket):
                continue
            try:
                data = client.recv(65536)
            except OSError as error:
                data = str(error).encode()
            number = self.asked.pop(client, None)
            if number is None:
                self.again(client)
                continue
            # Such small answers come in one piece.
            if data.startswith(b"HTTP/1.1 200 ") and data.endswith(b"\r\n\r\n%d" % number):
                self.answered += 1
                self.idle.append(client)
            else:
                self.failed[data[:20].decode("latin-1")] += 1
                self.again(client)


def main() -> None:
    """Runs it, and prints what became of the requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--restarts", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        record = directory / "record"
        said = directory / "front.err"
        endpoints = [f"ipc://{name}/send", f"ipc://{name}/recv"]
        route = f"/={','.join(endpoints)}"
        front = subprocess.Popen(  # noqa: S603
            [COMMAND, "front", "--bind", "127.0.0.1:0", "--route", route], stderr=said.open("wb")
        )

        def instance() -> subprocess.Popen[bytes]:
            words = ["--recv", endpoints[0], "--send", endpoints[1], "--app-path", str(APPS)]
            return subprocess.Popen(  # noqa: S603
                [COMMAND, *words, "--wsgi-app", "probe:application"],
                env={"PROBE_RECORD": str(record), "PATH": "/usr/bin:/bin"},
                stderr=(directory / "instance.err").open("ab"),
                cwd=name,
            )

        def handlers() -> int:
            return said.read_text().count("a handler has come")

        running = [front]
        try:
            wait_for("the front end", lambda: "listening at" in said.read_text())
            found = re.search(r"listening at .*:(\d+)", said.read_text())
            if found is None:
                raise SystemExit(said.read_text())
            steady = instance()
            running.append(steady)
            wait_for("the first instance", lambda: handlers() == 1)
            clients = Clients(int(found[1]), 64)
            number, restarts, come = 0, 0, 1
            other: subprocess.Popen[bytes] | None = None
            serving = False
            began = since = time.monotonic()
            # Twice in each turn, and the time that an instance needs to load.
            pause = options.requests / options.rate / options.restarts / 4
            while number < options.requests or clients.asked:
                now = time.monotonic()
                due = min(options.requests, int((now - began) * options.rate))
                while number < due and clients.idle:
                    number += 1
                    clients.send(number)
                clients.receive(0.002)
                if other is None and restarts < options.restarts and now > since + pause:
                    other = instance()
                    running.append(other)
                    come, serving = come + 1, False
                elif other is not None and not serving and handlers() >= come:
                    serving, since = True, now
                elif other is not None and serving and now > since + pause:
                    other.terminate()
                    other, since, restarts = None, now, restarts + 1
                if now - began > options.requests / options.rate + 120:
                    raise SystemExit(f"{len(clients.asked)} requests hang")
            took = time.monotonic() - began
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()
        begun = Counter(
            int(line.split()[1])
            for line in record.read_text().splitlines()
            if line.startswith("begun ")
        )
        twice = sum(count > 1 for count in begun.values())
        lost = options.requests - clients.answered
        print(
            f"{options.requests} requests in {took:.1f} s, {restarts} stops: {lost} lost {dict(clients.failed) or ''}, "
            f"{twice} run twice"
        )
        print(said.read_text().splitlines()[-1])
        if lost or twice or restarts < options.restarts:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
