"""The entry of worker processes; an instance starts it, nobody else.

``python -m lurcher.worker --bridge-fd N --board-fd M``
"""

import argparse
import contextlib
import faulthandler
import io
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from lurcher import _native
from lurcher.loader import LoadError, load, prepare_path
from lurcher.script import FORKS, stand_in

EXIT_LOAD = 4
EXIT_INTERNAL = 70

# What the C stack of a slot may hold: deep recursion must end in a RecursionError, not in a crash.
STACK = 8 * 1024 * 1024


def main() -> int:
    """Be a worker until the instance ends it. Give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lurcher.worker", description=__doc__)
    parser.add_argument("--bridge-fd", type=int, required=True)
    parser.add_argument("--board-fd", type=int, required=True)
    options = parser.parse_args()
    # Some applications read it; what stands there is none of theirs.
    del sys.argv[1:]
    forks = os.environ.pop(FORKS, None)
    if forks is not None:
        return stand_in(forks, options.bridge_fd, options.board_fd)
    return serve(options.bridge_fd, options.board_fd, _load)


def prepare_process() -> None:
    """Set up what is the same in every process of Python that an instance has."""
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What an application prints is seen at once, also where it goes into a pipe; and what the encoding of the
        # place cannot say is shown as an escape, as on stderr, for it must not cost a request.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")


def serve(
    bridge_fd: int,
    board_fd: int,
    load_application: Callable[[_native.Worker], Callable[..., Any]],
) -> int:
    """Be a worker on these descriptors until the instance ends it. Give the exit code."""
    prepare_process()
    # What the application starts must not hold the bridge open after this process.
    for fd in (bridge_fd, board_fd):
        os.set_inheritable(fd, False)
    os.set_blocking(bridge_fd, True)
    try:
        worker = _native.Worker(bridge_fd, board_fd)
    except OSError as error:
        print(f"lurcher: cannot be a worker: {error}", file=sys.stderr)
        return EXIT_INTERNAL

    wakeup = _Wakeup(worker)
    os.register_at_fork(after_in_child=lambda: _forked(worker))
    try:
        application = load_application(worker)
        stop = _hook(worker, worker.on_worker_stop)
        start = _hook(worker, worker.on_worker_start)
        if start is not None:
            _call_first(worker.on_worker_start, start)
    except LoadError as error:
        worker.load_failed(error.report())
        worker.finish()
        return EXIT_LOAD
    # An application may set handlers while it loads; these are how the worker is told to end.
    wakeup.arm()
    worker.ready()
    _serve(worker, application, wakeup)
    if stop is not None:
        _call_last(worker, stop)
    worker.finish()
    return 0


def _load(worker: _native.Worker) -> Callable[..., Any]:
    """Load the application."""
    app_path = str(worker.app_path)
    prepare_path(app_path)
    return checked(worker, load(worker.wsgi_app, app_path))


def checked(worker: _native.Worker, application: Callable[..., Any]) -> Callable[..., Any]:
    """With the reference checker round it, if that is wished."""
    if worker.lint:
        # Only then: it takes a few milliseconds to import.
        from wsgiref.validate import validator

        return validator(application)
    return application


def _hook(worker: _native.Worker, name: str | None) -> Callable[[], object] | None:
    return None if name is None else load(name, str(worker.app_path))


def _call_first(name: str | None, hook: Callable[[], object]) -> None:
    try:
        hook()
    except BaseException as error:
        lines = "".join(traceback.format_exception(error))
        raise LoadError(f"{name}, to be called when a worker starts, failed", lines) from None


def _call_last(worker: _native.Worker, hook: Callable[[], object]) -> None:
    try:
        hook()
    except BaseException:
        worker.log_error(f"{worker.on_worker_stop} failed", traceback.format_exc())


def _forked(worker: _native.Worker) -> None:
    """Make a process that the application has forked an ordinary one."""
    worker.abandon()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _Wakeup:
    """Lets the main thread wait without the interpreter, and yet run signal handlers at once.

    A signal may be taken by any thread; only a byte in this pipe surely wakes the main one.
    """

    def __init__(self, worker: _native.Worker) -> None:
        self._worker = worker
        self._pid = os.getpid()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)
        self.arm()

    def arm(self) -> None:
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._terminate)
        # The terminal sends it to the whole group: it is the instance's to act on. Not SIG_IGN,
        # which processes that the application starts would inherit.
        signal.signal(signal.SIGINT, self._nothing)

    def _terminate(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            # A process forked by the application, before it could be told that it is no worker.
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
            return
        self._worker.leave()

    def _nothing(self, signum: int, frame: FrameType | None) -> None:
        pass

    def wake(self) -> None:
        """Wake the main thread, from any thread."""
        # A full pipe wakes as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"\0")

    def wait(self) -> None:
        """Wait for a signal or for wake()."""
        self._poll.poll()
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)


def _serve(worker: _native.Worker, application: Callable[..., Any], wakeup: _Wakeup) -> None:
    """Run the slots until all have ended."""
    ended: list[int] = []

    def slot(number: int) -> None:
        try:
            worker.run_slot(number, application)
        finally:
            ended.append(number)
            wakeup.wake()

    watch = threading.Thread(target=worker.watch, name="lurcher-watch")
    watch.start()
    before = threading.stack_size(STACK)
    slots = [
        threading.Thread(target=slot, args=(number,), name=f"lurcher-slot-{number + 1}")
        for number in range(worker.threads)
    ]
    for thread in slots:
        thread.start()
    threading.stack_size(before)
    while len(ended) < len(slots):
        wakeup.wait()
    for thread in slots:
        thread.join()
    worker.end_watch()
    watch.join()


if __name__ == "__main__":
    sys.exit(main())
