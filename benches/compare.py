"""Requests a second of `lurcher serve` beside other servers, in one run: `make compare`.

Every server runs the same hello application with 1 and with 2 worker processes of 4 threads, and gets its turn in each
round, so that a noisy minute hits them all. It prints a table in Markdown: the median of the rounds, what a request
costs in CPU time (all processes of the server, kernel time included), and failed requests. The others are installed
into a virtual environment of their own below build/, nginx by apt.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mongrel2 import free_ports

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv/bin"
VENV = ROOT / "build/bench-venv"
OTHERS = ("gunicorn", "uwsgi", "waitress", "granian")
THREADS = 4
TICKS = os.sysconf("SC_CLK_TCK")

NGINX = """
daemon off; {user} worker_processes {workers}; error_log stderr warn; pid nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 1000000;
    upstream app {{ server unix:{socket}; keepalive 64; }}
    server {{ listen 127.0.0.1:{port}; location / {{ {location} }} }}
}}
"""
PROXY = 'proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection "";'
UWSGI = f"uwsgi_pass app; include {'/etc/nginx/uwsgi_params'};"

Commands = list[list[str]]


def lurcher(directory: Path, port: int, workers: int) -> Commands:
    """The front end, the instance and the workers, by one command."""
    words = ["serve", "hello:application", "--app-path", str(ROOT / "examples")]
    words += ["--bind", f"127.0.0.1:{port}", "--workers", str(workers), "--threads", str(THREADS)]
    return [[str(BIN / "lurcher"), *words, "--log-level", "warning"]]


def behind_nginx(directory: Path, port: int, workers: int, location: str) -> list[str]:
    """nginx on the port, the application behind a unix socket in the directory."""
    config = NGINX.format(
        # Started as root it would become somebody who may not look into the directory.
        user="user root;" if os.geteuid() == 0 else "",
        workers=workers,
        port=port,
        socket=directory / "app.sock",
        location=location,
    )
    (directory / "nginx.conf").write_text(config)
    return ["nginx", "-p", str(directory), "-c", "nginx.conf"]


def nginx_gunicorn(directory: Path, port: int, workers: int) -> Commands:
    """Gunicorn with threads; its own advice is to put nginx before it."""
    app = [str(VENV / "bin/gunicorn"), "hello:application", "--chdir", str(ROOT / "examples")]
    app += ["--worker-class", "gthread", "--workers", str(workers), "--threads", str(THREADS)]
    app += ["--bind", f"unix:{directory / 'app.sock'}", "--log-level", "warning"]
    return [app, behind_nginx(directory, port, workers, PROXY)]


def nginx_uwsgi(directory: Path, port: int, workers: int) -> Commands:
    """uWSGI with its own protocol behind nginx."""
    app = [str(VENV / "bin/uwsgi"), "--master", "--disable-logging", "--need-app", "--die-on-term"]
    app += ["--module", "hello:application", "--pythonpath", str(ROOT / "examples")]
    app += ["--processes", str(workers), "--threads", str(THREADS)]
    app += ["--socket", str(directory / "app.sock"), "--listen", "128"]
    return [app, behind_nginx(directory, port, workers, UWSGI)]


def waitress(directory: Path, port: int, workers: int) -> Commands:
    """One process; it has no workers."""
    words = ["--threads", str(THREADS), "--host", "127.0.0.1", "--port", str(port)]
    return [[str(VENV / "bin/waitress-serve"), *words, "hello:application"]]


def granian(directory: Path, port: int, workers: int) -> Commands:
    """Granian's WSGI interface."""
    words = ["--interface", "wsgi", "--workers", str(workers), "--blocking-threads", str(THREADS)]
    words += ["--host", "127.0.0.1", "--port", str(port), "--no-access-log"]
    words += ["--log-level", "warning", "--working-dir", str(ROOT / "examples")]
    return [[str(VENV / "bin/granian"), *words, "hello:application"]]


Maker = Callable[[Path, int, int], Commands]
SERVERS: list[tuple[str, Maker, tuple[int, ...]]] = [
    ("lurcher serve", lurcher, (1, 2)),
    ("nginx + gunicorn", nginx_gunicorn, (1, 2)),
    ("nginx + uWSGI", nginx_uwsgi, (1, 2)),
    ("waitress", waitress, (1,)),
    ("granian", granian, (1, 2)),
]


@dataclass
class Row:
    """What one server did, a value for each round."""

    name: str
    make: Maker
    workers: int
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    failed: int = 0


def of_session(session: int) -> list[list[str]]:
    """What /proc says of each process of a session, from the field `state` on."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[3]) == session:
                found.append([entry.name, *stat])
    return found


def cpu_seconds(sessions: list[int]) -> float:
    """Of all living processes, children that were waited for included."""
    ticks = sum(
        int(number)
        for session in sessions
        for stat in of_session(session)
        for number in stat[12:16]
    )
    return ticks / TICKS


def start(row: Row, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
    """All processes of a server, answering."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "examples")}
    started = []
    with (directory / "log").open("wb") as log:
        for command in row.make(directory, port, row.workers):
            process = subprocess.Popen(  # noqa: S603
                command, cwd=directory, env=env, stdout=log, stderr=log, start_new_session=True
            )
            started.append(process)
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                if answer.status == 200:
                    return started
        except OSError:
            pass
        if time.monotonic() > deadline or any(process.poll() is not None for process in started):
            stop(started)
            said = (directory / "log").read_text(errors="replace")
            sys.exit(f"{row.name} does not answer; it said:\n{said}")
        time.sleep(0.1)


def stop(started: list[subprocess.Popen[bytes]]) -> None:
    """Ends what was started, and nothing else."""
    for process in reversed(started):
        process.terminate()
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stat in of_session(process.pid):
            os.kill(int(stat[0]), signal.SIGKILL)


def measure(row: Row, seconds: int, connections: int) -> None:
    """One round: started, warmed up, measured, ended."""
    directory = Path(tempfile.mkdtemp(prefix="lurcher-bench-"))
    port = free_ports(1)[0]
    started = start(row, directory, port)
    sessions = [process.pid for process in started]
    url = f"http://127.0.0.1:{port}/"
    try:
        wrk(url, 1, connections)
        before = cpu_seconds(sessions)
        count, rate, failed = wrk(url, seconds, connections)
        row.costs.append((cpu_seconds(sessions) - before) / max(count, 1) * 1e6)
        row.rates.append(rate)
        row.failed += failed
    finally:
        stop(started)
        shutil.rmtree(directory, ignore_errors=True)


def wrk(url: str, seconds: int, connections: int) -> tuple[int, float, int]:
    """Requests, requests a second, failed ones."""
    command = ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    total = re.search(r"(\d+) requests in", said)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if total is None or rate is None:
        sys.exit(f"wrk said:\n{said}")
    errors = re.search(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    failed = sum(int(number) for number in errors.groups()) if errors else 0
    return int(total[1]), float(rate[1]), failed + (int(bad[1]) if bad else 0)


def install() -> None:
    """The other servers, into an environment of their own."""
    if not (VENV / "bin/granian").exists():
        print(f"installing {', '.join(OTHERS)} into {VENV}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)  # noqa: S603
        pip = [str(VENV / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *OTHERS], check=True)  # noqa: S603


def versions() -> str:
    """Of the servers in the table."""
    listed = subprocess.run(  # noqa: S603
        [str(VENV / "bin/pip"), "list", "--format=freeze", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = [line.replace("==", " ") for line in listed.splitlines()]
    wanted = [line for line in found if line.split()[0].lower() in OTHERS]
    nginx = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True)  # noqa: S607
    return ", ".join([*wanted, nginx.stderr.strip().removeprefix("nginx version: ")])


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--only", default="", help="servers whose name has this in it")
    args = parser.parse_args()
    install()
    rows = [
        Row(name, make, workers)
        for name, make, counts in SERVERS
        if args.only in name
        for workers in counts
    ]
    for number in range(args.rounds):
        for row in rows:
            print(f"round {number + 1}: {row.name}, {row.workers}", file=sys.stderr)
            measure(row, args.seconds, args.connections)
    print(f"wrk -c {args.connections}, {args.rounds} rounds of {args.seconds} s; {versions()}\n")
    print("| server | workers | requests/s | from, to | CPU µs a request | failed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        rate, cost = statistics.median(row.rates), statistics.median(row.costs)
        span = f"{min(row.rates):,.0f} to {max(row.rates):,.0f}"
        print(f"| {row.name} | {row.workers} | {rate:,.0f} | {span} | {cost:.0f} | {row.failed} |")


if __name__ == "__main__":
    main()
