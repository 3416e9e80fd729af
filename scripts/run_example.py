"""Mongrel2 and Lurcher with an example application, until Ctrl-C: what `make run-mongrel2` does.

Loads a configuration of `proxy-configs/mongrel2` into a private directory below `run/`, starts both servers, sends
a first request through them with curl, prints the answer and the URL, and stays until SIGINT, SIGTERM or SIGHUP, which
end both cleanly (exit 0). With `--once` it ends by itself after the first answer. A port of the configuration that is
taken is replaced by a free one. Standard library only.
"""

from __future__ import annotations

import argparse
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from mongrel2 import (
    Mongrel2,
    Mongrel2Error,
    PortTakenError,
    free_ports,
    port_is_free,
    without_comments,
)

ROOT = Path(__file__).resolve().parent.parent
PORTS = re.compile(r"""(?:\bport\s*=\s*|tcp://127\.0\.0\.1:)(\d+)""")
FIRST_ANSWER_SECONDS = 60.0
# Lurcher gives its requests 30 s to finish (--graceful-timeout).
LURCHER_STOP_SECONDS = 40.0
TRIES = 5


class FailureError(Exception):
    """Something that must be told to whoever started this, in one message."""


class Signals:
    """Wakes a wait when a signal arrives: one of those that ask us to stop, or SIGCHLD."""

    STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        """Takes the signals over, also those that were ignored when we were started."""
        self.asked_to_stop = 0
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        for number in self.STOP:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.asked_to_stop += 1

    def wait(self, seconds: float | None = None) -> None:
        """Returns when a signal has come, or after so many seconds."""
        select.select([self._read], [], [], seconds)
        try:
            while self._read.recv(4096):
                pass
        except BlockingIOError:
            pass


def say(text: str) -> None:
    """One line for whoever watches."""
    print(f"== {text}", flush=True)


def with_free_ports(config: str) -> str:
    """The configuration, each taken port replaced by a free one."""
    ports = dict.fromkeys(int(port) for port in PORTS.findall(without_comments(config)))
    taken = [port for port in ports if not port_is_free(port)]
    for port, other in zip(taken, free_ports(len(taken)), strict=True):
        say(f"port {port} is taken, using {other} instead")
        config = re.sub(rf"(?<=[=:])(\s*){port}\b", rf"\g<1>{other}", config)
    return config


def start_mongrel2(config: Path, directory: Path) -> Mongrel2:
    """Mongrel2 with the configuration, on the ports it names or on free ones."""
    text = config.read_text(encoding="utf-8")
    for _ in range(TRIES):
        mongrel2 = Mongrel2(directory, with_free_ports(text))
        try:
            mongrel2.start()
        except PortTakenError:
            continue
        return mongrel2
    raise FailureError(f"no free ports after {TRIES} tries")


def endpoint(config: str, name: str) -> str:
    """A handler's send_spec or recv_spec."""
    found = re.search(rf"""\b{name}\s*=\s*['"]([^'"]+)""", without_comments(config))
    if found is None:
        raise FailureError(f"the configuration has no {name}")
    return found.group(1)


def start_lurcher(args: argparse.Namespace, config: str) -> subprocess.Popen[bytes]:
    """Lurcher on the handler's two endpoints, in a session of its own: Ctrl-C reaches only us."""
    command = [
        args.lurcher,
        *("--recv", endpoint(config, "send_spec"), "--send", endpoint(config, "recv_spec")),
        *("--wsgi-app", args.wsgi_app, "--app-path", str(args.app_path)),
        *args.lurcher_options,
    ]
    say("starting " + " ".join(command))
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    except OSError as error:
        raise FailureError(f"cannot start {args.lurcher}: {error.strerror}") from error


def first_answer(url: str, lurcher: subprocess.Popen[bytes], signals: Signals) -> str | None:
    """Asks with curl and waits for the answer. None when we were asked to stop meanwhile."""
    say(f"first request: curl -i {url}")
    curl = subprocess.Popen(  # noqa: S603
        ["curl", "-sS", "-i", "--max-time", str(int(FIRST_ANSWER_SECONDS)), url],  # noqa: S607
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        while curl.poll() is None:
            if signals.asked_to_stop:
                return None
            if lurcher.poll() is not None:
                raise FailureError(f"lurcher ended with exit code {lurcher.returncode}")
            signals.wait(0.5)
        assert curl.stdout is not None  # noqa: S101
        said = curl.stdout.read().decode("utf-8", "replace")
    finally:
        if curl.poll() is None:
            curl.kill()
            curl.wait()
    if curl.returncode != 0 or not re.match(r"HTTP/1\.[01] 200 ", said):
        raise FailureError(f"the first request was not answered as it should be:\n{said}")
    return said


def stop_lurcher(lurcher: subprocess.Popen[bytes], signals: Signals) -> int:
    """Asks Lurcher to end and waits for it; a second Ctrl-C meanwhile is passed on, and ends it at once."""
    passed_on = signals.asked_to_stop
    if lurcher.poll() is None:
        lurcher.terminate()
    deadline = time.monotonic() + LURCHER_STOP_SECONDS
    while lurcher.poll() is None:
        signals.wait(0.5)
        if signals.asked_to_stop > passed_on:
            passed_on = signals.asked_to_stop
            lurcher.terminate()
        if time.monotonic() > deadline:
            lurcher.kill()
            lurcher.wait()
            raise FailureError(f"lurcher did not end within {LURCHER_STOP_SECONDS:.0f} s")
    return lurcher.returncode


def serve(args: argparse.Namespace, mongrel2: Mongrel2, signals: Signals) -> None:
    """Lurcher behind a running Mongrel2, until we are asked to stop or one of them ends."""
    url = f"http://127.0.0.1:{mongrel2.port}/"
    lurcher = start_lurcher(args, mongrel2.config)
    try:
        answer = first_answer(url, lurcher, signals)
        if answer is not None:
            print(answer.rstrip("\r\n"), flush=True)
            say(f"served at {url}")
        if answer is not None and not args.once:
            say("Ctrl-C ends both")
            while not signals.asked_to_stop:
                if lurcher.poll() is not None:
                    raise FailureError(f"lurcher ended with exit code {lurcher.returncode}")
                if not mongrel2.is_alive():
                    raise FailureError("Mongrel2 ended by itself")
                signals.wait()
    finally:
        say("stopping Lurcher")
        code = stop_lurcher(lurcher, signals)
    if code != 0:
        raise FailureError(f"lurcher ended with exit code {code}")


def run(args: argparse.Namespace) -> None:
    """Everything between the first and the last line that is printed."""
    signals = Signals()
    args.run_dir.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="example-", dir=args.run_dir))
    say(f"starting Mongrel2 with {args.config} in {directory}")
    mongrel2 = start_mongrel2(args.config, directory)
    try:
        serve(args, mongrel2, signals)
    finally:
        say("stopping Mongrel2")
        mongrel2.stop()
    shutil.rmtree(directory)


def example_options(about: str | None) -> argparse.ArgumentParser:
    """The options of every script that runs an example; the first line of `about` says what it does."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument(
        "--lurcher", default=str(ROOT / ".venv/bin/lurcher"), help="the command to start"
    )
    parser.add_argument("--wsgi-app", default="hello:application")
    parser.add_argument("--app-path", type=Path, default=ROOT / "examples")
    parser.add_argument("--once", action="store_true", help="end after the first answer")
    parser.add_argument(
        "lurcher_options", nargs="*", metavar="-- OPTIONS", help="more options for lurcher"
    )
    return parser


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = example_options(__doc__)
    parser.add_argument("--config", type=Path, default=ROOT / "proxy-configs/mongrel2/lurcher.conf")
    parser.add_argument("--run-dir", type=Path, default=ROOT / "run")
    return parser.parse_args()


def main() -> int:
    """Exit code 0 when it ran and was stopped as asked, 1 when anything failed."""
    try:
        run(arguments())
    except (FailureError, Mongrel2Error) as failure:
        print(f"run-example: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
