"""Large and slow downloads through the real Mongrel2; `benches/bulk.py` has the same in full size."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from support.front import FrontEnd
from support.process import APPS
from support.rawhttp import Client, ClosedError, Response, get
from support.stage import Stage
from support.waiting import wait_for

sys.path.insert(0, str(APPS))
from downloads import digest, pattern

APP = "downloads:application"
FLOW = {"download.flow_control": 1}
# An idle sweep after two seconds, whatever is read and written.
SWEPT = {
    "limits.min_ping": 1,
    "limits.tick_timer": 1,
    "limits.min_read_rate": 1_000_000,
    "limits.min_write_rate": 1_000_000,
}
MEGABYTE = 1 << 20


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def rss(pid: int) -> int:
    """The memory of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"{pid} has no memory")


def still_open(front: FrontEnd) -> int:
    shown = front.beside("/open").json()
    return int(shown["open"])


def slow_client(front: FrontEnd, target: str) -> Client:
    """One that has asked and reads nothing more than the beginning."""
    client = Client(front.port, 60, receive_buffer=4096)
    client.send_request("GET", target)
    client.head()
    return client


@pytest.mark.parametrize("kind", ["generated", "written", "file", "blob"])
@pytest.mark.parametrize("flow", [0, 1], ids=["messages", "credits"])
def test_a_download_arrives_whole_and_costs_no_memory(stage: Stage, kind: str, flow: int) -> None:
    size = 48 * MEGABYTE + 5
    front = stage.mongrel2(settings={"download.flow_control": flow})
    lurcher = stage.lurcher(*front.options, app=APP)
    with Client(front.port, 60) as client:
        client.get("/blob?size=1000000")
        pids = [lurcher.pid, *lurcher.wait_for_workers(1)]
        before = [rss(pid) for pid in pids]
        response = client.get(f"/{kind}?size={size}")
        grown = [rss(pid) - was for pid, was in zip(pids, before, strict=True)]
        assert sha(response.body) == digest(size)
        assert client.get("/quick").body == b"quick"
    if kind == "blob":
        # The application keeps it.
        grown[1] -= size
    assert max(grown) < 32 * MEGABYTE, grown
    assert response.header("Content-Length") == (str(size) if kind in ("blob", "file") else None)


def test_a_slow_client_holds_no_slot_and_gets_its_body(stage: Stage) -> None:
    """What fits into memory and file is taken at once: the iterable is closed long before the client has it."""
    size = 20 * MEGABYTE
    front = stage.mongrel2(settings=FLOW)
    stage.lurcher(*front.options, "--threads", "1", app=APP)
    with slow_client(front, f"/generated?size={size}&length=1") as client:
        wait_for("a free slot", lambda: still_open(front) == 0)
        assert sha(client.exactly(size)) == digest(size)


def test_the_application_waits_when_memory_and_file_are_full(stage: Stage) -> None:
    size = 20 * MEGABYTE
    front = stage.mongrel2(settings=FLOW)
    options = ("--threads", "2", "--response-memory", "64K", "--response-spool", "1M")
    lurcher = stage.lurcher(*front.options, *options, app=APP)
    with slow_client(front, f"/generated?size={size}&length=1") as client:
        for _ in range(20):
            assert still_open(front) == 1
        assert sha(client.exactly(size)) == digest(size)
    wait_for("the end of the iterable", lambda: still_open(front) == 0)
    assert "error" not in lurcher.err().lower()


def test_nothing_of_a_spool_stays_and_a_disk_that_fails_costs_nothing(stage: Stage) -> None:
    size = 5 * MEGABYTE
    front = stage.mongrel2(settings=FLOW)
    spool = stage.directory / "spool"
    spool.mkdir()
    lurcher = stage.lurcher(*front.options, "--spool-dir", str(spool), "--threads", "2", app=APP)
    with slow_client(front, f"/generated?size={size}&length=1"):
        wait_for("a free slot", lambda: still_open(front) == 0)
        assert list(spool.iterdir()) == []
        holds = [os.readlink(fd) for fd in Path(f"/proc/{lurcher.pid}/fd").iterdir()]
        assert any(str(spool) in name for name in holds), holds
        spool.rmdir()
        with slow_client(front, f"/generated?size={size}&length=1") as client:
            lurcher.wait_for_err("a response cannot be written to its temporary file")
            assert still_open(front) == 1
            assert sha(client.exactly(size)) == digest(size)


def test_a_client_that_takes_nothing_is_cut_off(stage: Stage) -> None:
    front = stage.mongrel2(settings=FLOW)
    options = ("--send-timeout", "1s", "--response-spool", "0", "--threads", "2")
    lurcher = stage.lurcher(*front.options, *options, app=APP)
    with slow_client(front, f"/generated?size={50 * MEGABYTE}&length=1") as client:
        assert still_open(front) == 1
        said = lurcher.wait_for_err("has taken nothing for")
        assert "bytes waiting" in said
        wait_for("the closing of the iterable", lambda: still_open(front) == 0)
        with pytest.raises(ClosedError):
            client.exactly(50 * MEGABYTE)


def test_a_client_that_reads_on_is_not_cut_off(stage: Stage) -> None:
    size = 6 * MEGABYTE
    front = stage.mongrel2(settings=FLOW)
    stage.lurcher(*front.options, "--send-timeout", "1500ms", app=APP)
    with slow_client(front, f"/generated?size={size}&length=1") as client:
        body, began = b"", time.monotonic()
        while len(body) < size:
            body += client.exactly(min(256 * 1024, size - len(body)))
            time.sleep(0.1)
        assert sha(body) == digest(size)
        assert time.monotonic() - began > 1.6


@pytest.mark.parametrize("waits", ["window", "between"])
def test_the_iterable_of_a_client_that_left_is_closed_at_once(stage: Stage, waits: str) -> None:
    """Also while its block waits for the client, and while the application makes the next one."""
    front = stage.mongrel2(settings=FLOW)
    options = ("--response-spool", "0", "--threads", "2", "--no-keep-alive")
    lurcher = stage.lurcher(*front.options, *options, app=APP)
    target = f"/generated?size={500 * MEGABYTE}" if waits == "window" else "/ticking?pause=0.05"
    client = slow_client(front, target)
    wait_for("an iterable", lambda: still_open(front) == 1)
    client.reset()
    left = time.monotonic()
    wait_for("its closing", lambda: still_open(front) == 0, 5)
    assert time.monotonic() - left < 1
    assert "error in the application" not in lurcher.err()


def test_a_stream_ends_when_the_front_end_says_that_the_connection_is_unknown(
    stage: Stage,
) -> None:
    """Mongrel2's idle sweep tells nobody. The next message to that connection is answered with a notice."""
    front = stage.mongrel2(settings=SWEPT)
    stage.lurcher(*front.options, "--keepalive-interval", "0", app=APP)
    with slow_client(front, "/ticking?pause=0.2") as client:
        client.rest()
        wait_for("the closing of the iterable", lambda: still_open(front) == 0)


def test_many_streams_whose_clients_leave_free_their_slots(stage: Stage) -> None:
    front = stage.mongrel2(settings=FLOW)
    stage.lurcher(*front.options, "--threads", "16", "--response-spool", "1M", app=APP)
    kinds = [f"/generated?size={50 * MEGABYTE}", "/ticking?pause=0.02"]
    clients = [slow_client(front, kinds[i % 2]) for i in range(15)]
    wait_for("all at work", lambda: still_open(front) == 15)
    for client in clients:
        client.reset()
    left = time.monotonic()
    wait_for("all closed", lambda: still_open(front) == 0)
    assert time.monotonic() - left < 3
    # Every slot serves again.
    again = [slow_client(front, "/ticking?pause=0.02") for _ in range(15)]
    wait_for("all at work again", lambda: still_open(front) == 15)
    for client in again:
        client.close()
    # When Lurcher has left the front end, nothing tells it any more that a client has gone.
    wait_for("all closed again", lambda: still_open(front) == 0)


def test_a_dead_worker_cuts_its_downloads_and_harms_no_others(stage: Stage) -> None:
    front = stage.mongrel2(settings=FLOW)
    lurcher = stage.lurcher(*front.options, "--workers", "2", "--response-spool", "1M", app=APP)
    pids = lurcher.wait_for_workers(2)
    lurcher.wait_for_ready(2)
    size = 30 * MEGABYTE
    clients = [slow_client(front, f"/generated?size={size}&length=1") for _ in range(6)]
    os.kill(pids[0], signal.SIGKILL)
    outcomes = []

    def read(client: Client) -> None:
        try:
            outcomes.append(sha(client.exactly(size)) == digest(size))
        except ClosedError:
            outcomes.append(False)

    threads = [threading.Thread(target=read, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    for client in clients:
        client.close()
    assert sorted(outcomes) == [False] * 3 + [True] * 3, "each worker had three"
    assert get(front.port, "/quick").body == b"quick"


def test_slow_downloads_do_not_slow_down_others(stage: Stage) -> None:
    front = stage.mongrel2(settings=FLOW)
    stage.lurcher(*front.options, "--threads", "2", app=APP)
    clients = [slow_client(front, f"/generated?size={3 * MEGABYTE}") for _ in range(20)]
    took = []
    for _ in range(20):
        began = time.monotonic()
        assert get(front.port, "/quick").body == b"quick"
        took.append(time.monotonic() - began)
    assert sorted(took)[10] < 0.5, took
    for client in clients:
        assert b"".join(client.chunks()) == b"".join(pattern(3 * MEGABYTE))
        client.close()


def test_a_pipelined_request_waits_until_the_first_answer_is_delivered(stage: Stage) -> None:
    """Its application is not even called while the client still has to read the answer before."""
    front = stage.mongrel2(settings=FLOW)
    stage.lurcher(*front.options, "--threads", "2", app=APP)
    size = 10 * MEGABYTE
    with Client(front.port, 60, receive_buffer=4096) as client:
        one = f"GET /generated?size={size}&length=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        two = "GET /ticking HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.send((one + two).encode())
        client.head()
        wait_for("the end of the first iterable", lambda: still_open(front) == 0)
        for _ in range(20):
            assert still_open(front) == 0, "the second has begun"
        assert sha(client.exactly(size)) == digest(size)
        client.head()
        assert client.chunk().startswith(b"data: ")


def fetch_file(stage: Stage, path: Path, begin: int = 0) -> Response:
    front = stage.mongrel2()
    stage.lurcher(*front.options, app=APP)
    return get(front.port, f"/file?path={quote(str(path))}&from={begin}")


def test_a_file_is_sent_from_where_it_stands(stage: Stage) -> None:
    path = stage.directory / "file"
    path.write_bytes(b"".join(pattern(300_000)))
    response = fetch_file(stage, path, 100_001)
    assert response.body == path.read_bytes()[100_001:]
    assert response.header("Content-Length") == "199999"


def test_a_file_whose_size_is_not_true_is_sent_as_it_is(stage: Stage) -> None:
    response = fetch_file(stage, Path("/proc/self/status"))
    assert response.body.startswith(b"Name:")
    assert response.header("Content-Length") is None


def test_what_only_looks_like_a_file_is_read_by_its_read(stage: Stage) -> None:
    """The descriptor of a GzipFile leads to the compressed bytes."""
    path = stage.directory / "file.gz"
    path.write_bytes(gzip.compress(b"plain text"))
    (stage.directory / "unpacked.py").write_text(
        "import gzip, io\n"
        "def application(environ, start):\n"
        f"    file = gzip.open({str(path)!r})\n"
        "    if environ['PATH_INFO'] == '/buffered':\n"
        "        file = io.BufferedReader(file)\n"
        "    start('200 OK', [])\n"
        "    return environ['wsgi.file_wrapper'](file)\n"
    )
    front = stage.mongrel2()
    stage.lurcher(
        *front.options,
        *("--wsgi-app", "unpacked:application", "--app-path", str(stage.directory)),
        app=None,
    )
    for target in ("/", "/buffered"):
        assert get(front.port, target).body == b"plain text"
