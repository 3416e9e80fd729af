"""What the front end of `lurcher serve` endures: other people's clients, slow ones, and many idle ones: `make endure`.

It prints one line for each: requests and failures of ab, h2load, wrk and curl; how long a normal client waits while
each of slowhttptest's four modes holds connections; the memory of the front end's process with 10,000 idle keep-alive
connections, and the speed beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LURCHER = ROOT / ".venv/bin/lurcher"
SERVING = re.compile(r"serving at http://127\.0\.0\.1:(\d+)")
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = {
    "slow headers": ["-H", "-i", "5"],
    "slow body": ["-B", "-i", "5", "-s", "8192", "-t", "POST"],
    "range": ["-R", "-a", "1", "-b", "1000"],
    "slow read": ["-X", "-w", "1", "-y", "8", "-n", "5", "-z", "1", "-k", "3"],
}


@contextlib.contextmanager
def served(*options: str) -> Iterator[tuple[int, int]]:
    """The port and the front end's process id."""
    words = ["serve", "hello:application", "--app-path", str(ROOT / "examples")]
    words += ["--bind", "127.0.0.1:0", "--log-level", "warning", *options]
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([LURCHER, *words], stdout=out)  # noqa: S603
        try:
            deadline = time.monotonic() + 30
            while (found := SERVING.search(os.pread(out.fileno(), 4096, 0).decode())) is None:
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("lurcher serve does not come up")
                time.sleep(0.05)
            yield int(found[1]), front_of(process.pid)
        finally:
            process.terminate()
            process.wait(60)


def front_of(parent: int) -> int:
    """The child that is the front end."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for child in children:
        if b"front end" in Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    sys.exit("no front end process")


def rss(pid: int) -> int:
    """Resident memory in KiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0


def run(*command: str) -> str:
    """What it says; it must end with 0."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr}")
    return result.stdout


def first(pattern: str, text: str) -> str:
    """The first group where it matches, or a dash."""
    found = re.search(pattern, text)
    return found[1] if found else "-"


DONE, FAILED = r"Complete requests:\s+(\d+)", r"Failed requests:\s+(\d+)"
RATE, ERRORS = r"Requests/sec:\s+(\S+)", r"(Socket errors: .*)"


def clients(port: int, seconds: int) -> None:
    """Everybody's usual tools."""
    url = f"http://127.0.0.1:{port}/"
    said = run("ab", "-q", "-n", "20000", "-c", "32", url)
    print(f"ab, a connection each: {first(DONE, said)} done, {first(FAILED, said)} failed")
    said = run("ab", "-q", "-k", "-n", "50000", "-c", "32", url)
    print(f"ab -k: {first(DONE, said)} done, {first(FAILED, said)} failed")
    said = run("h2load", "--h1", "-n", "50000", "-c", "64", "-m", "4", url)
    print("h2load --h1, 4 pipelined: " + first(r"requests: (.*)", said))
    for count in (32, 256):
        said = run("wrk", "-t", "1", "-c", str(count), "-d", f"{seconds}s", url)
        print(f"wrk -c {count}: {first(RATE, said)}/s, errors: {first(ERRORS, said)}")
    run("curl", "-sSf", "--parallel", f"{url}[1-1000]", "-o", "/dev/null")
    print("curl --parallel: 1000 done")


class Normal(threading.Thread):
    """Asks ten times a second on new connections, and remembers how long each took."""

    def __init__(self, port: int) -> None:
        """Begins at once."""
        super().__init__(daemon=True)
        self.port = port
        self.took: list[float] = []
        self.failed = 0
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        """Until it is over."""
        while not self.over.wait(0.1):
            began = time.monotonic()
            try:
                with socket.create_connection(("127.0.0.1", self.port), 10) as client:
                    client.sendall(REQUEST)
                    if not client.recv(100).startswith(b"HTTP/1.1 200"):
                        self.failed += 1
            except OSError:
                self.failed += 1
            self.took.append(time.monotonic() - began)


def slow(port: int, seconds: int) -> None:
    """slowhttptest's four modes, a normal client beside each."""
    for name, words in SLOW.items():
        normal = Normal(port)
        command = ["slowhttptest", *words, "-c", "2000", "-r", "500", "-l", str(seconds), "-p", "3"]
        # Its exit code says how it ended, not whether it could connect.
        subprocess.run(  # noqa: S603
            [*command, "-u", f"http://127.0.0.1:{port}/"], capture_output=True, check=False
        )
        normal.over.set()
        normal.join()
        worst, middle = max(normal.took), sorted(normal.took)[len(normal.took) // 2]
        print(
            f"{name}, 2000 connections: {len(normal.took)} normal requests, {normal.failed} failed, "
            f"median {middle * 1000:.1f} ms, worst {worst * 1000:.0f} ms"
        )


def idle(port: int, front: int, count: int, seconds: int) -> None:
    """Many connections that had one answer each and stay."""
    url = f"http://127.0.0.1:{port}/"
    alone = first(RATE, run("wrk", "-t", "1", "-c", "32", "-d", f"{seconds}s", url))
    before = rss(front)
    held = []
    # Each from an address of its own block: a client address has too few ports for all.
    for number in range(count):
        client = socket.socket()
        client.bind((f"127.0.1.{number % 250 + 1}", 0))
        client.connect(("127.0.0.1", port))
        client.sendall(REQUEST)
        if not client.recv(1000).startswith(b"HTTP/1.1 200"):
            sys.exit(f"connection {number} got no answer")
        held.append(client)
    after = rss(front)
    beside = first(RATE, run("wrk", "-t", "1", "-c", "32", "-d", f"{seconds}s", url))
    each = (after - before) / count
    print(
        f"{count} idle keep-alive connections: front end {before} KiB before, {after} KiB with them "
        f"({each:.2f} KiB each); wrk -c 32: {alone}/s without, {beside}/s beside them"
    )
    for client in held:
        client.close()


def main() -> None:
    """Everything, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10, help="of each part")
    parser.add_argument("--connections", type=int, default=10_000, help="idle ones")
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with served("--max-connections", "15000", "--idle-timeout", "10m") as (port, front):
        clients(port, args.seconds)
        slow(port, args.seconds)
        idle(port, front, args.connections, args.seconds)


if __name__ == "__main__":
    main()
