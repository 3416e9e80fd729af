"""Large, slow and broken downloads in full size, through the real Mongrel2.

    PYTHONPATH=scripts:tests/python:tests/python/apps .venv/bin/python benches/bulk.py [row ...]

Each row checks its own bound and prints what it saw; the exit code says whether all were kept. Memory is VmRSS of
/proc/PID/status, read every 10 ms while the download runs, of the instance and of its worker together.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import downloads
import zmq
from support.front import FrontEnd
from support.process import Lurcher
from support.rawhttp import Client, get
from support.stage import Stage
from support.waiting import wait_for

APP = "downloads:application"
FLOW = {"download.flow_control": 1}
MIB = 1 << 20
GIB = 1 << 30
BLOB = 5_200_000

rows: dict[str, Callable[[Stage], bool]] = {}


def row(measure: Callable[[Stage], bool]) -> Callable[[Stage], bool]:
    """Put a measurement into the table."""
    rows[measure.__name__.replace("_", "-")] = measure
    return measure


def say(text: str, kept: bool) -> bool:
    """Print what was seen."""
    print(f"  {text}: {'kept' if kept else 'NOT KEPT'}", flush=True)
    return kept


# ---- Tools


def rss(pid: int) -> int:
    """Bytes of memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


class Peak:
    """The most memory that some processes have had together."""

    def __init__(self, pids: list[int]) -> None:
        """Begin to look."""
        self.pids = pids
        self.first = self.most = self.now()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def now(self) -> int:
        """All of them together."""
        return sum(map(rss, self.pids))

    def look(self) -> None:
        """Look every 10 ms."""
        while not self.stop.wait(0.01):
            self.most = max(self.most, self.now())

    def grown(self) -> int:
        """End, and tell by how much it has grown."""
        self.stop.set()
        self.thread.join()
        return self.most - self.first


def fetch(client: Client, target: str, size: int, rate: float | None = None) -> tuple[str, float]:
    """The sha256 of a response's body, read at so many bytes a second, and the seconds it took."""
    client.send_request("GET", target)
    client.head()
    sha, got, began = hashlib.sha256(client.buffer), len(client.buffer), time.monotonic()
    client.buffer = b""
    client.socket.settimeout(60)
    while got < size:
        block = client.socket.recv(256 * 1024)
        if not block:
            break
        sha.update(block)
        got += len(block)
        if rate:
            time.sleep(max(0.0, got / rate - (time.monotonic() - began)))
    return sha.hexdigest(), time.monotonic() - began


def start(stage: Stage, *options: str, flow: bool = True) -> tuple[FrontEnd, Lurcher]:
    """Mongrel2 and Lurcher, warm."""
    front = stage.mongrel2(settings={**FLOW} if flow else None)
    lurcher = stage.lurcher(*front.options, *options, app=APP)
    get(front.port, "/quick")
    return front, lurcher


# ---- Rows


def gibibyte(stage: Stage, kind: str, rate: float | None) -> bool:
    """One large download."""
    front, lurcher = start(stage)
    with Client(front.port, 3600) as client:
        client.get("/quick")
        peak = Peak([lurcher.pid, *lurcher.worker_pids()])
        target = f"/{kind}?size={GIB}&length=1"
        sha, seconds = fetch(client, target, GIB, rate)
        grown = peak.grown()
    right = sha == downloads.digest(GIB)
    text = f"1 GiB ({kind}) in {seconds:.1f} s, {GIB / seconds / 1e6:.0f} MB/s, sha256 {'right' if right else 'WRONG'}"
    return say(f"{text}, RSS +{grown / MIB:.1f} MiB (< 32)", right and grown < 32 * MIB)


@row
def download_full_speed(stage: Stage) -> bool:
    """1 GiB, flow control, a client at full speed: from a generator and from a file."""
    return all([gibibyte(stage, "generated", None), gibibyte(stage, "file", None)])


@row
def download_5_mb_a_second(stage: Stage) -> bool:
    """1 GiB, flow control, a client that reads 5 MB/s."""
    return gibibyte(stage, "generated", 5e6)


@row
def slow_clients(stage: Stage) -> bool:
    """200 clients read 10 MB each at 200 KB/s; beside them 20 quick requests a second."""
    front, lurcher = start(
        stage, "--workers", "2", "--threads", "8", "--response-spool-total", "4G"
    )
    wait_for("both ready", lambda: lurcher.err().count(" is ready after ") == 2)
    # The clients are a process of their own: they must not take the interpreter from the measuring.
    script = f"import bulk; bulk.read_slowly({front.port}, 200, 10_000_000, 200_000)"
    readers = subprocess.Popen(  # noqa: S603 (our own)
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    took = []
    with Client(front.port, 120) as client:
        while readers.poll() is None:
            began = time.monotonic()
            client.get("/quick")
            took.append(time.monotonic() - began)
            time.sleep(max(0.0, 0.05 - took[-1]))
    median, worst = statistics.median(took), max(took)
    text = f"{len(took)} quick requests: median {median * 1e3:.1f} ms (< 50), worst {worst * 1e3:.0f} ms"
    return say(
        f"{text}; readers ended with {readers.returncode}", median < 0.05 and not readers.returncode
    )


def read_slowly(port: int, clients: int, size: int, rate: float) -> None:
    """Many clients in one thread: each reads its share of what its rate allows by now, in turn."""
    right = downloads.digest(size)
    readers = []
    for _ in range(clients):
        client = Client(port, 600, receive_buffer=65_536)
        client.send_request("GET", f"/generated?size={size}&length=1")
        readers.append((client, hashlib.sha256()))
    got = dict.fromkeys(range(clients), 0)
    for number, (client, sha) in enumerate(readers):
        client.head()
        sha.update(client.buffer)
        got[number] = len(client.buffer)
        client.socket.setblocking(False)
    began = time.monotonic()
    while got:
        for number in list(got):
            client, sha = readers[number]
            due = int((time.monotonic() - began) * rate) - got[number]
            if due > 0:
                with contextlib.suppress(BlockingIOError):
                    block = client.socket.recv(min(due, 65_536))
                    if not block:
                        sys.exit(f"client {number} was cut off after {got[number]} bytes")
                    sha.update(block)
                    got[number] += len(block)
            if got[number] >= size:
                if sha.hexdigest() != right:
                    sys.exit(f"client {number} got other bytes")
                del got[number]
        time.sleep(0.01)
    print(
        f"  {clients} clients: {size} bytes each in {time.monotonic() - began:.1f} s, sha256 right"
    )


@row
def aborted_streams(stage: Stage) -> bool:
    """64 streams, aborted by their clients at random moments."""
    front, _ = start(stage, "--threads", "70", "--response-spool", "1M")
    kinds = [f"/generated?size={GIB}", "/ticking?pause=0.05"]
    clients = []
    for number in range(64):
        client = Client(front.port, 60)
        client.send_request("GET", kinds[number % 2])
        client.head()
        clients.append(client)
    wait_for("all at work", lambda: get(front.port, "/open").json()["open"] == 64, 30)
    dice = random.Random(64)  # noqa: S311 (no secret)
    left: list[float] = []
    for client in dice.sample(clients, 64):
        time.sleep(dice.uniform(0, 0.1))
        client.reset() if dice.random() < 0.5 else client.close()
        left.append(time.monotonic())
    wait_for("all closed", lambda: get(front.port, "/open").json()["open"] == 0, 30)
    # Both clocks are the kernel's monotonic one. Each end belongs to a client that left no later.
    ends = sorted(get(front.port, "/open").json()["ended"])
    late = max(end - gone for end, gone in zip(ends, sorted(left), strict=True))
    again = []
    for _ in range(64):
        client = Client(front.port, 60)
        client.send_request("GET", kinds[1])
        client.head()
        again.append(client)
    wait_for("every slot at work again", lambda: get(front.port, "/open").json()["open"] == 64, 30)
    for client in again:
        client.close()
    wait_for("all closed again", lambda: get(front.port, "/open").json()["open"] == 0, 30)
    return say(
        f"64 aborted: the latest iterable closed after {late:.2f} s (< 1); all slots serve again",
        late < 1,
    )


@row
def killed_worker(stage: Stage) -> bool:
    """A worker is killed amid 10 downloads; the other one has some too."""
    front, lurcher = start(stage, "--workers", "2", "--threads", "8")
    wait_for("both ready", lambda: lurcher.err().count(" is ready after ") == 2)
    size = 200 * MIB
    outcomes: list[tuple[str, float]] = []

    def read() -> None:
        with Client(front.port, 120) as client:
            sha, _ = fetch(client, f"/generated?size={size}&length=1", size, 40e6)
            what = "whole" if sha == downloads.digest(size) else "cut"
            outcomes.append((what, time.monotonic()))

    threads = [threading.Thread(target=read) for _ in range(10)]
    for thread in threads:
        thread.start()
    wait_for("ten at work", lambda: lurcher.is_alive() and len(threads) == 10)
    time.sleep(1)
    os.kill(lurcher.worker_pids()[0], signal.SIGKILL)
    killed = time.monotonic()
    for thread in threads:
        thread.join()
    cut = [when - killed for what, when in outcomes if what == "cut"]
    whole = len(outcomes) - len(cut)
    served = get(front.port, "/quick").body == b"quick"
    files = [fd for fd in Path(f"/proc/{lurcher.pid}/fd").iterdir() if "deleted" in os.readlink(fd)]
    spooled = [fd for fd in files if "memfd" not in os.readlink(fd)]
    text = f"10 downloads: {len(cut)} cut within {max(cut, default=0):.2f} s, {whole} whole"
    text += f"; spool files left: {len(spooled)}"
    return say(text, served and whole > 0 and len(cut) > 0 and max(cut) < 5 and not spooled)


@contextlib.contextmanager
def echo_handler(front: FrontEnd, blob: bytes) -> Iterator[None]:
    """A bare libzmq handler behind the same Mongrel2: it answers each request with the blob, in one message."""
    link = front.links[0]
    script = Path(tempfile.mkdtemp()) / "blob"
    script.write_bytes(blob)
    code = f"import bulk; bulk.echo({link.send_spec!r}, {link.recv_spec!r}, {str(script)!r})"
    process = subprocess.Popen(  # noqa: S603 (our own)
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        stdout=subprocess.PIPE,
    )
    try:
        if process.stdout is None or process.stdout.readline() != b"ready\n":
            raise RuntimeError("the bare handler does not come up")
        yield
    finally:
        process.kill()
        process.wait()


def echo(send_spec: str, recv_spec: str, path: str) -> None:
    """Answer for ever."""
    blob = Path(path).read_bytes()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(blob)}\r\n\r\n".encode()
    context = zmq.Context()
    publish, pull = context.socket(zmq.XPUB), context.socket(zmq.PULL)
    publish.connect(recv_spec)
    # Before it waits for the subscription: without a handler Mongrel2 may be stuck in its PUSH, and subscribe to none.
    pull.connect(send_spec)
    publish.recv()
    print("ready", flush=True)
    while True:
        uuid, conn, path_, _ = pull.recv().split(b" ", 3)
        if path_ != b"@*":
            publish.send(b"%s %d:%s, %s%s" % (uuid, len(conn), conn, head, blob))


def throughput(port: int, target: str, seconds: float) -> tuple[float, int]:
    """Bytes a second that wrk gets with 32 connections, and its errors."""
    url = f"http://127.0.0.1:{port}{target}"
    command = ["wrk", "-t", "1", "-c", "32", "-d", f"{seconds:.0f}s", "--timeout", "30s", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    said = done.stdout
    requests = next(float(line.split()[1]) for line in said.splitlines() if "Requests/sec" in line)
    bad = sum("Socket errors" in line or "Non-2xx" in line for line in said.splitlines())
    return requests * BLOB, bad


@row
def blob(stage: Stage) -> bool:
    """A blob of 5.2 MB, 32 clients, no flow control: against a bare libzmq handler behind the same Mongrel2."""
    front = stage.mongrel2()
    body = downloads.blob(BLOB)
    best: dict[str, list[float]] = {"echo": [], "lurcher": []}
    errors = 0
    for _ in range(3):
        with echo_handler(front, body):
            rate, bad = throughput(front.port, "/", 8)
            best["echo"].append(rate)
        lurcher = stage.lurcher(*front.options, "--threads", "32", app=APP)
        wait_for("lurcher", lambda: get(front.port, "/quick").body == b"quick", 20)
        rate, bad = throughput(front.port, f"/blob?size={BLOB}", 8)
        best["lurcher"].append(rate)
        errors += bad
        lurcher.stop()
    ratios = [ours / theirs for ours, theirs in zip(best["lurcher"], best["echo"], strict=True)]
    shown = ", ".join(
        f"{a / 1e6:.0f} of {b / 1e6:.0f} MB/s"
        for a, b in zip(best["lurcher"], best["echo"], strict=True)
    )
    ratio = statistics.median(ratios)
    return say(
        f"5.2 MB blob, 32 clients: {shown}; median ratio {ratio:.2f} (>= 0.6, mark 0.8), errors {errors}",
        ratio >= 0.6,
    )


def main(names: list[str]) -> int:
    """Measure some rows, or all."""
    kept = True
    for name in names or list(rows):
        measure = rows[name]
        print(f"{name}: {measure.__doc__}", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            stage = Stage(Path(directory))
            try:
                kept &= measure(stage)
            finally:
                stage.clear_away()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
