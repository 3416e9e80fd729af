"""Our own front end beside Mongrel2, with the same bare handler, in alternating rounds of one run.

What is compared is a ratio: requests a second, and the processor time that the front end's process takes for each. The
handler is a loop over two ZeroMQ sockets in a process of its own, so all four (wrk, front end, handler, ZeroMQ's
thread) share the machine, as they would. There are two handlers: one with libzmq alone (benches/echo.rs), and one with
pyzmq, which on two cores is soon what limits both sides.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from support.front import start_front_end

HANDLER = """
import sys, zmq
context = zmq.Context()
pull, publish = context.socket(zmq.PULL), context.socket(zmq.PUB)
publish.connect(sys.argv[2])
pull.connect(sys.argv[1])
response = b"HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\nContent-Type: text/plain\\r\\n\\r\\nhello\\n"
while True:
    sender, conn, path, _ = pull.recv().split(b" ", 3)
    if path != b"@*":
        publish.send(b"%s %d:%s, %s" % (sender, len(conn), conn, response))
"""


def processor_seconds(pid: int) -> float:
    """Of one process, all its threads."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Figures:
    """What was measured of one side."""

    rates: list[float] = field(default_factory=list)
    micros: list[float] = field(default_factory=list)

    def shown(self) -> str:
        """The medians."""
        return f"{statistics.median(self.rates):>9,.0f}/s {statistics.median(self.micros):>6.1f} us"


def wrk(port: int, connections: int, seconds: int) -> tuple[float, int]:
    """Requests a second, and how many; none may fail."""
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", f"http://127.0.0.1:{port}/"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout  # noqa: S603
    bad = re.search(r"Non-2xx.*|Socket errors.*", said)
    if bad:
        raise SystemExit(f"wrk: {bad[0]}")
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", said)
    count = re.search(r"(\d+) requests in", said)
    if rate is None or count is None:
        raise SystemExit(said)
    return float(rate[1]), int(count[1])


def measure(pid: int, port: int, connections: int, seconds: int, into: Figures) -> None:
    """One round of one side."""
    wrk(port, connections, 1)
    before = processor_seconds(pid)
    rate, count = wrk(port, connections, seconds)
    into.rates.append(rate)
    into.micros.append((processor_seconds(pid) - before) / count * 1e6)


def compare(
    what: str, sides: dict[str, tuple[int, int]], connections: int, options: argparse.Namespace
) -> None:
    """Rounds of both sides in turn; prints the medians, and their ratios."""
    figures = {side: Figures() for side in sides}
    for turn in range(options.rounds):
        for side in sorted(sides, reverse=turn % 2 == 1):
            measure(*sides[side], connections, options.seconds, figures[side])
    theirs, own = figures["Mongrel2"], figures["lurcher front"]
    for side, figure in figures.items():
        print(f"{what} {side:<14} {figure.shown()}")
    rate = statistics.median(own.rates) / statistics.median(theirs.rates)
    cost = statistics.median(own.micros) / statistics.median(theirs.micros)
    print(
        f"{what} ratio: {rate:.2f} of the requests, {cost:.2f} of the processor time for each",
        flush=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that was started here."""
    process.send_signal(signal.SIGTERM)
    process.wait()


def main() -> None:
    """Runs both, and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="lurcher-front, a release build")
    parser.add_argument("echo", help="the example `echo`, a release build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        mongrel2 = start_front_end(directory)
        try:
            send, recv = f"ipc://{name}/send", f"ipc://{name}/recv"
            log = (directory / "log").open("wb")
            words = ["--bind", "127.0.0.1:0", "--route", f"/={send},{recv}"]
            ours = subprocess.Popen([options.binary, *words], stderr=log)  # noqa: S603
            started.append(ours)
            deadline = time.monotonic() + 10
            while not (
                found := re.search(r"listening at .*:(\d+)", (directory / "log").read_text())
            ):
                if time.monotonic() > deadline:
                    raise SystemExit("lurcher-front does not listen")
                time.sleep(0.05)
            link = mongrel2.links[0]
            endpoints = ((send, recv), (link.send_spec, link.recv_spec))
            sides = {
                "Mongrel2": (mongrel2.pid, mongrel2.port),
                "lurcher front": (ours.pid, int(found[1])),
            }
            for kind, handler in (
                ("libzmq", [options.echo]),
                ("pyzmq", [sys.executable, "-c", HANDLER]),
            ):
                handlers = [subprocess.Popen([*handler, *at]) for at in endpoints]  # noqa: S603
                started += handlers
                time.sleep(1)
                for connections in (32, 256):
                    compare(f"{kind:<6} -c {connections:<4}", sides, connections, options)
                for process in handlers:
                    started.remove(process)
                    end(process)
        finally:
            for process in reversed(started):
                end(process)
            mongrel2.stop()


if __name__ == "__main__":
    main()
