"""Reloads and recyclings under load: wrk with 32 connections through a real Mongrel2, and not one failed request.

    PYTHONPATH=scripts:tests/python .venv/bin/python benches/reload.py [times]

It does `times` (20) reloads, then one with a syntax error, then `times` recyclings by `--max-requests`, and ends with 1
if wrk has seen anything but 200, or if something did not happen.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.process import Lurcher
from support.site import Site
from support.stage import Stage
from support.waiting import wait_for

WORKERS = 2
CONNECTIONS = 32


def wrk(port: int, seconds: int) -> subprocess.Popen[str]:
    """Start the load."""
    url = f"http://127.0.0.1:{port}/number/7"
    words = ["wrk", "-t", "2", "-c", str(CONNECTIONS), "-d", f"{seconds}s", "--timeout", "10s", url]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own words


def wait_for_count(lurcher: Lurcher, says: str, times: int) -> None:
    """Wait until Lurcher has said it so often."""
    wait_for(says, lambda: lurcher.err().count(says) == times, 60)


def verdict(what: str, load: subprocess.Popen[str]) -> bool:
    """End the load, print what became of it, and tell whether all went well."""
    load.send_signal(signal.SIGINT)
    said = load.communicate(timeout=60)[0]
    served = re.search(r"(\d+) requests in ([\d.]+s)", said)
    failed = re.findall(r"(Socket errors.*|Non-2xx.*)", said)
    print(f"{what}: {served[0] if served else said}; failed: {', '.join(failed) or 'none'}")
    return served is not None and not failed


def reloads(directory: Path, times: int) -> bool:
    """Reload so often under load, each time with other code, and once with code that does not load."""
    stage, site = Stage(directory), Site(directory)
    front = stage.mongrel2()
    words = [*front.options, *site.options, "--workers", str(WORKERS)]
    lurcher = stage.lurcher(*words, app=None, env=site.env)
    lurcher.wait_for_err("is ready")
    load = wrk(front.port, 600)
    began = time.monotonic()
    for number in range(1, times + 1):
        site.write(number + 1)
        lurcher.send_signal(signal.SIGHUP)
        wait_for_count(lurcher, "reloaded: ", number)
    took = (time.monotonic() - began) / times
    site.write(0, extra="this is no Python")
    lurcher.send_signal(signal.SIGHUP)
    lurcher.wait_for_err("reload failed: the old workers stay", 60)
    error = "SyntaxError: invalid syntax" in lurcher.err()
    what = f"{times} reloads ({took:.2f} s each) and one with a syntax error"
    good = verdict(what, load) and error
    stage.clear_away()
    return good


def recyclings(directory: Path, times: int) -> bool:
    """Let workers be recycled so often under load."""
    stage = Stage(directory)
    front = stage.mongrel2()
    limits = ["--max-requests", "1000", "--max-requests-jitter", "500"]
    lurcher = stage.lurcher(*front.options, "--workers", str(WORKERS), *limits)
    lurcher.wait_for_err("is ready")
    load = wrk(front.port, 600)
    wait_for("the recyclings", lambda: lurcher.err().count(": replacing it") >= times, 300)
    good = verdict(f"{lurcher.err().count(': replacing it')} recyclings", load)
    stage.clear_away()
    return good


def main() -> int:
    """Do it all."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    good = []
    for part in (reloads, recyclings):
        with tempfile.TemporaryDirectory() as directory:
            good.append(part(Path(directory), times))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
