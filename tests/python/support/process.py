"""The `lurcher` command as a process: started, watched, signalled, and cleared away by pid.

Each run carries a mark in its environment that all its descendants inherit, so that a process left behind is found
even when its parent is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.waiting import wait_for

COMMAND = Path(sys.prefix) / "bin" / "lurcher"
APPS = Path(__file__).resolve().parent.parent / "apps"
MARK = "PROBE_MARK"


def marked(mark: str) -> list[int]:
    """The living processes that carry the mark (a zombie has no environment any more)."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                environment = Path(entry.path, "environ").read_bytes()
            except OSError:
                continue
            if wanted in environment.split(b"\0"):
                found.append(int(entry.name))
    return found


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def is_worker(pid: int) -> bool:
    """Whether it is a worker, before or after it has got its title."""
    words = command_line(pid)
    return b"lurcher.worker" in words or any(w.startswith(b"lurcher: worker-") for w in words[:1])


class Lurcher:
    """One run of the command, in a session of its own. Its output goes to files in `directory`."""

    def __init__(
        self,
        directory: Path,
        options: Sequence[str],
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = (str(COMMAND),),
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.stdout = directory / f"lurcher-{self.mark}.out"
        self.stderr = directory / f"lurcher-{self.mark}.err"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("LURCHER_")}
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd or directory,
                env={**inherited, **(env or {}), MARK: self.mark},
                start_new_session=True,
                pass_fds=pass_fds,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def err(self) -> str:
        return self.stderr.read_text(encoding="utf-8", errors="replace")

    def out(self) -> str:
        return self.stdout.read_text(encoding="utf-8", errors="replace")

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def processes(self) -> list[int]:
        """Every living process of this run, the instance included."""
        return marked(self.mark)

    def worker_pids(self) -> list[int]:
        return [pid for pid in self.processes() if is_worker(pid)]

    def wait_for_workers(self, count: int, seconds: float = 20.0) -> list[int]:
        def look() -> list[int]:
            assert self.is_alive(), f"lurcher ended with {self.process.poll()}:\n{self.err()}"
            pids = self.worker_pids()
            return pids if len(pids) == count else []

        return wait_for(f"{count} worker processes", look, seconds)

    def wait_for_ready(self, count: int) -> None:
        """Until so many workers have loaded the application since the start. A worker that is there may still load."""
        ready = " is ready after "
        wait_for(
            f"{count} to be ready",
            lambda: self.err().count(ready) >= count or not self.is_alive(),
            20,
        )
        assert self.is_alive(), self.err()

    def wait_for_err(self, words: str, seconds: float = 10.0) -> str:
        def look() -> str:
            said = self.err()
            return said if words in said else ""

        try:
            return wait_for(f"{words!r} on stderr", look, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it said:\n{self.err()}") from None

    def wait_for_err_count(self, words: str, count: int, seconds: float = 10.0) -> None:
        """Until it has said something so many times."""
        wait_for(f"{words!r} {count} times", lambda: self.err().count(words) >= count, seconds)

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def send_signal_group(self, number: signal.Signals) -> None:
        """To the instance and its workers alike, as a terminal does with Ctrl-C."""
        os.killpg(self.pid, number)

    def wait_exit(self, seconds: float = 15.0) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"lurcher did not end within {seconds} s; it said:\n{self.err()}"
            ) from None

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 15.0) -> int:
        """Asks it to end; gives its exit code, after checking that nothing of it is left."""
        if self.is_alive():
            self.send_signal(number)
        code = self.wait_exit(seconds)
        self.assert_no_orphans()
        return code

    def assert_no_orphans(self, seconds: float = 5.0) -> None:
        wait_for(f"no process left behind by {self.pid}", lambda: not self.processes(), seconds)

    def clear_away(self) -> None:
        """Ends whatever is left, by pid."""
        self.process.kill()
        self.process.wait()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
