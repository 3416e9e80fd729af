"""`lurcher serve` with an example application, until Ctrl-C: what `make run` does.

Starts it, sends a first request with curl, prints the answer and the URL, and stays until SIGINT, SIGTERM or SIGHUP,
which end it cleanly (exit 0). With `--once` it ends by itself after the first answer. When the port is taken, a free
one is used instead. Standard library only.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import threading

from mongrel2 import port_is_free
from run_example import FailureError, Signals, example_options, first_answer, say, stop_lurcher

PORT = 8000
SERVING = re.compile(r"serving at (http://\S+)")


def start(args: argparse.Namespace) -> subprocess.Popen[bytes]:
    """The one command, in a session of its own: Ctrl-C reaches only us."""
    port = PORT
    if not port_is_free(port):
        say(f"port {port} is taken, using a free one instead")
        port = 0
    command = [
        args.lurcher,
        *("serve", args.wsgi_app, "--app-path", str(args.app_path)),
        *("--bind", f"127.0.0.1:{port}", *args.lurcher_options),
    ]
    say("starting " + " ".join(command))
    try:
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise FailureError(f"cannot start {args.lurcher}: {error.strerror}") from error


class Output(threading.Thread):
    """Hands on what it prints, and remembers the address."""

    def __init__(self, lurcher: subprocess.Popen[bytes]) -> None:
        """Begins at once."""
        super().__init__(daemon=True)
        self.lurcher = lurcher
        self.base: str | None = None
        self.start()

    def run(self) -> None:
        """Until it ends."""
        assert self.lurcher.stdout is not None  # noqa: S101
        for line in self.lurcher.stdout:
            text = line.decode("utf-8", "replace")
            print(text, end="", flush=True)
            found = SERVING.search(text)
            if found is not None:
                self.base = found[1]


def address(lurcher: subprocess.Popen[bytes], signals: Signals) -> str | None:
    """What it prints once the application is loaded. None when we were asked to stop meanwhile."""
    output = Output(lurcher)
    while output.base is None:
        if signals.asked_to_stop:
            return None
        if lurcher.poll() is not None:
            raise FailureError(f"lurcher ended with exit code {lurcher.returncode}")
        signals.wait(0.05)
    return output.base


def serve(args: argparse.Namespace, signals: Signals) -> None:
    """Until we are asked to stop, or it ends."""
    lurcher = start(args)
    try:
        base = address(lurcher, signals)
        answer = None if base is None else first_answer(f"{base}/", lurcher, signals)
        if answer is not None:
            print(answer.rstrip("\r\n"), flush=True)
            say(f"served at {base}/")
        if answer is not None and not args.once:
            say("Ctrl-C ends it")
            while not signals.asked_to_stop:
                if lurcher.poll() is not None:
                    raise FailureError(f"lurcher ended with exit code {lurcher.returncode}")
                signals.wait()
    finally:
        say("stopping Lurcher")
        code = stop_lurcher(lurcher, signals)
    if code != 0:
        raise FailureError(f"lurcher ended with exit code {code}")


def main() -> int:
    """Exit code 0 when it ran and was stopped as asked, 1 when anything failed."""
    try:
        serve(example_options(__doc__).parse_args(), Signals())
    except FailureError as failure:
        print(f"run-serve: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
