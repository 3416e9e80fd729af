"""Large bodies through the real Mongrel2: by upload files and by streams, what they cost and leave behind.

PYTHONPATH=scripts:tests/python python benches/uploads.py [MEBIBYTES]

One body of 1 GiB each way, then ten clients in the middle of whose uploads a worker is killed. Fails if a digest
is wrong, memory grows by 32 MiB or more, or a file stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from support.front import FrontEnd
from support.process import Lurcher
from support.rawhttp import Client, ClosedError
from support.stage import Stage
from support.waiting import wait_for

MIB = 1 << 20
BOUND = 32 * MIB
BLOCK = hashlib.sha256(b"upload").digest() * (MIB // 32)


def check(holds: bool, what: str) -> None:
    """Ends the bench if something is not as it must be."""
    if not holds:
        raise SystemExit(what)


def numbered(size: int) -> Iterator[bytes]:
    """A body without two equal blocks."""
    for number in range(size // MIB):
        yield number.to_bytes(8, "big") + BLOCK[8:]


def resident(pids: list[int]) -> int:
    """Memory of these processes, in bytes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE")


def wholly(front: FrontEnd, lurcher: Lurcher, size: int) -> tuple[float, int]:
    """Sends one body; gives the seconds it took and by how much memory grew meanwhile."""
    digest = hashlib.sha256()
    with Client(front.port) as client:
        check(client.ask("POST", "/digest", body=b"warm" * 100_000).status == 200, "no answer")
    with Client(front.port, 600) as client:
        pids = [lurcher.pid, *lurcher.worker_pids()]
        before, most = resident(pids), 0
        ended = threading.Event()

        def watch() -> None:
            nonlocal most
            while not ended.wait(0.05):
                most = max(most, resident(pids))

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.monotonic()
        try:
            client.send_request("POST", "/digest", [("Content-Length", str(size))])
            for block in numbered(size):
                digest.update(block)
                client.send(block)
            answer = client.response("POST").body.decode()
        finally:
            took = time.monotonic() - began
            ended.set()
            watcher.join()
    check(answer.split()[:2] == [digest.hexdigest(), str(size)], f"wrong: {answer}")
    return took, most - before


def at_work(stage: Stage, lurcher: Lurcher) -> int:
    """Requests in slots."""
    shown = json.loads(stage.command("status", "--json", "--pid", str(lurcher.pid)).stdout)
    return sum(worker["busy"] for worker in shown["workers"])


def killed(front: FrontEnd, lurcher: Lurcher, stage: Stage) -> float:
    """Kills the worker in the middle of ten uploads; gives the seconds until the last client knew."""
    clients = [Client(front.port) for _ in range(10)]
    size = 4 * MIB
    for client in clients:
        client.send_request("POST", "/digest?way=bytes&pause=0.2", [("Content-Length", str(size))])
        client.socket.setblocking(False)
    unsent = {id(client): size for client in clients}
    end = time.monotonic() + 3
    # A body in a file is read when it is whole, so all of it is sent; a stream is read from its first byte.
    while any(unsent.values()) and (
        time.monotonic() < end or at_work(stage, lurcher) < len(clients)
    ):
        for client in clients:
            with contextlib.suppress(BlockingIOError):
                unsent[id(client)] -= client.socket.send(BLOCK[: min(65536, unsent[id(client)])])
        time.sleep(0.001)
    [worker] = lurcher.worker_pids()
    wait_for("ten at work", lambda: at_work(stage, lurcher) == len(clients))
    began = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    for client in clients:
        client.socket.setblocking(True)
        client.deadline = time.monotonic() + 20
        with contextlib.suppress(ClosedError):
            check(client.response("POST").status == 502, "no 502")
        client.close()
    took = time.monotonic() - began
    with Client(front.port) as client:
        check(client.get("/").body == b"hello", "no answer after the death")
    return took


def left(files: Path) -> int:
    """How many files stay, some seconds after their requests."""
    with contextlib.suppress(AssertionError):
        wait_for("the files to be gone", lambda: not list(files.iterdir()), 5)
    return len(list(files.iterdir()))


def main(size: int) -> int:
    """Measures both ways; 1 if one breaks its bounds."""
    failed = False
    ways: dict[str, dict[str, int | str]] = {
        "file": {"upload.temp_store": "tmp/upload.XXXXXX"},
        "stream": {"upload.stream": 1},
    }
    with tempfile.TemporaryDirectory() as directory:
        for way, settings in ways.items():
            stage = Stage(Path(directory))
            try:
                front = stage.mongrel2(settings=settings)
                files = front.directory / "tmp"
                files.mkdir(exist_ok=True)
                # One more thread than uploads, so that somebody can be asked beside them.
                options = ["--mongrel2-chroot", str(front.directory), "--threads", "11"]
                lurcher = stage.lurcher(*front.options, *options, app="reader:application")
                lurcher.wait_for_err("receiving requests")
                took, grown = wholly(front, lurcher, size)
                cut = killed(front, lurcher, stage)
                stayed = left(files)
            finally:
                stage.clear_away()
            print(
                f"{way:6} {size // MIB} MiB in {took:.1f} s ({size / MIB / took:.0f} MiB/s); memory grew by "
                f"{grown / MIB:.1f} MiB; 10 cut uploads: last client told after {cut:.2f} s; {stayed} files stayed"
            )
            failed |= grown >= BOUND or stayed > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) * MIB if sys.argv[1:] else 1024 * MIB))
