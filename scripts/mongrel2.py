"""Loads a configuration into a real Mongrel2 and runs it in a directory of its own.

Used by `run_example.py` and by the tests. Standard library only. It never touches a Mongrel2 that it did not start.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A port below the range from which the kernel takes client ports: inside it, whoever reconnects in a loop to a
# port where nobody listens may after a while be connected to itself.
LOWEST_PORT = 20_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

# What m2sh and mongrel2 print as an error when no terminal is there. Harmless.
HARMLESS = "getlogin failed"


class Mongrel2Error(Exception):
    """Mongrel2 cannot be configured or started."""


class PortTakenError(Mongrel2Error):
    """A port of the configuration belongs to someone else."""


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Different ports that are free now. Someone may still be quicker: be ready to try again."""
    try:
        below = int(EPHEMERAL.read_text().split()[0])
    except OSError:
        below = 32_768
    lowest = LOWEST_PORT if below > LOWEST_PORT + 1000 else 1024
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(lowest, below)  # noqa: S311 (no secret)
        if port not in ports and port_is_free(port):
            ports.append(port)
    return ports


def without_comments(config: str) -> str:
    """The configuration without its comment lines."""
    return "".join(line for line in config.splitlines(True) if not line.lstrip().startswith("#"))


def load(config: Path, database: Path) -> None:
    """Runs `m2sh load`. Its exit code is 0 even on errors, so what it prints decides."""
    loaded = subprocess.run(  # noqa: S603
        ["m2sh", "load", "-config", str(config), "-db", str(database)],  # noqa: S607
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    said = (loaded.stdout + loaded.stderr).splitlines()
    faults = [line for line in said if "[ERROR]" in line and HARMLESS not in line]
    if loaded.returncode != 0 or faults:
        raise Mongrel2Error(f"m2sh does not load {config}:\n" + "\n".join(faults or said))


class Mongrel2:
    """One Mongrel2 process: the first server of a configuration, in `directory`, in the foreground.

    The configuration must set `"server.daemonize": 0` and name its files relative to the directory.
    """

    def __init__(self, directory: Path, config: str) -> None:
        """Writes and loads the configuration; starts nothing."""
        self.directory = directory
        self.config = config
        bare = without_comments(config)
        self.uuid = self._first(bare, r"""uuid\s*=\s*['"]([^'"]+)""")
        self.port = int(self._first(bare, r"\bport\s*=\s*(\d+)"))
        self.log = directory / "logs" / "error.log"
        self.process: subprocess.Popen[bytes] | None = None
        for name in ("logs", "run", "tmp"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / "mongrel2.conf").write_text(config, encoding="utf-8")
        load(directory / "mongrel2.conf", directory / "config.sqlite")
        self._handlers = len(set(re.findall(r"""recv_spec\s*=\s*['"]([^'"]+)""", bare)))

    @staticmethod
    def _first(config: str, pattern: str) -> str:
        found = re.search(pattern, config)
        if found is None:
            raise Mongrel2Error(f"nothing like {pattern} in the configuration")
        return found.group(1)

    def start(self, seconds: float = 15.0) -> None:
        """Starts it and waits until it listens for HTTP and has bound every handler's endpoints."""
        seen = self.log.stat().st_size if self.log.exists() else 0
        with (self.directory / "output.log").open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603
                ["mongrel2", "config.sqlite", self.uuid],  # noqa: S607
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + seconds
        while True:
            said = self._said(seen)
            if "Can't announce on TCP port" in said or "Failed to bind" in said:
                self.kill()
                raise PortTakenError(f"a port of {self.directory / 'mongrel2.conf'} is taken")
            if self.process.poll() is not None:
                raise Mongrel2Error(f"Mongrel2 ended at its start:\n{self._said(seen)}")
            if (
                "Running. Copyright" in said
                and said.count("Binding listener SUB socket") >= self._handlers
            ):
                return
            if time.monotonic() > deadline:
                self.kill()
                raise Mongrel2Error(f"Mongrel2 is not ready after {seconds} s:\n{said}")
            time.sleep(0.01)

    def _said(self, since: int) -> str:
        """What it has written since it was started: the log, and what came before the log was open."""
        said = (self.directory / "output.log").read_text(errors="replace")
        if self.log.exists():
            with self.log.open("rb") as log:
                log.seek(since)
                said += log.read().decode(errors="replace")
        return said

    @property
    def pid(self) -> int:
        """The process that runs."""
        if self.process is None:
            raise Mongrel2Error("Mongrel2 was not started")
        return self.process.pid

    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def stop(self, seconds: float = 10.0) -> int:
        """Asks it to end (it does so at once, clients are cut off) and gives its exit code."""
        return self._end(signal.SIGTERM, seconds)

    def kill(self) -> None:
        """Ends it without a chance to say goodbye."""
        self._end(signal.SIGKILL, 10.0)
        (self.directory / "run" / "mongrel2.pid").unlink(missing_ok=True)

    def _end(self, how: signal.Signals, seconds: float) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Mongrel2Error(f"Mongrel2 did not end within {seconds} s") from None


@contextmanager
def running(mongrel2: Mongrel2) -> Iterator[Mongrel2]:
    """Starts it for a `with` block and stops it afterwards."""
    mongrel2.start()
    try:
        yield mongrel2
    finally:
        mongrel2.stop()
