"""The template: loads the application once and forks the workers; an instance starts it, nobody else.

``python -m lurcher.template --control-fd N``

The control socket keeps message boundaries. The instance sends the settings first, then one message for each worker,
with the descriptors of its bridge and its board. The template answers in JSON. It runs no thread, so that its forks are
sound; workers are forked twice, so that they become children of the instance, which waits for them as for any other.
"""

import argparse
import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lurcher import worker
from lurcher.loader import LoadError, load, prepare_path

# A traceback beyond this is cut: it has to fit into one message.
LONGEST = 64 * 1024


def main() -> int:
    """Be the template until the instance ends it. Give the exit code; that of a worker in its process."""
    parser = argparse.ArgumentParser(prog="python -m lurcher.template", description=__doc__)
    parser.add_argument("--control-fd", type=int, required=True)
    options = parser.parse_args()
    del sys.argv[1:]
    worker.prepare_process()
    # A terminal sends it to all; the instance decides. Not SIG_IGN, which children of the application would inherit.
    signal.signal(signal.SIGINT, lambda signum, frame: None)
    os.set_inheritable(options.control_fd, False)
    control = socket.socket(fileno=options.control_fd)
    settings = json.loads(control.recv(LONGEST))

    prepare_path(settings["app_path"])
    try:
        application = load(settings["wsgi_app"], settings["app_path"])
        _check_threads()
    except LoadError as error:
        _say(control, failed=error.report()[:LONGEST])
        return worker.EXIT_LOAD
    # What is there now never goes away: the collector of a fork need not touch it, and so copy its pages.
    gc.collect()
    gc.freeze()
    _say(control, ready=True)
    return _fork_on_demand(control, application)


def _check_threads() -> None:
    """Refuse threads: a fork copies their locks as they are, but not those who would open them again."""
    # One that was just joined may still be listed by the kernel for a moment; Python's own list is exact.
    ours = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    foreign = [] if ours else _foreign_threads()
    if ours or foreign:
        what = f"threads {', '.join(map(repr, ours))}" if ours else _describe(foreign)
        raise LoadError(
            f"cannot preload: the application has started {what} while it was loaded, and they would be missing "
            "in every worker. Start them in --on-worker-start, or do without --preload"
        )


def _describe(names: list[str]) -> str:
    return (
        f"threads that Python does not know ({', '.join(map(repr, names))}), as native libraries do; "
        "some can be told not to, as OpenBLAS with OPENBLAS_NUM_THREADS=1"
    )


def _foreign_threads() -> list[str]:
    names = []
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != os.getpid():
            with contextlib.suppress(OSError):
                names.append((task / "comm").read_text().strip())
    return names


def _fork_on_demand(control: socket.socket, application: Callable[..., Any]) -> int:
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 64, 2)
        if not request:
            # The instance has gone, or wants no more workers of this code.
            return 0
        if request == b"log":
            _take_log(*descriptors)
            continue
        number = int(request)
        bridge, board = descriptors
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        try:
            child = os.fork()
        except OSError as error:
            _say(control, worker=number, refused=str(error))
        else:
            if child == 0:
                return _fork_again(control, number, bridge, board, application)
            os.waitpid(child, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def _take_log(log: int) -> None:
    """The log file was opened anew: have it where the old one was."""
    old = os.fstat(2)
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), old):
                os.dup2(log, descriptor)
    os.close(log)


def _fork_again(
    control: socket.socket,
    number: int,
    bridge: int,
    board: int,
    application: Callable[..., Any],
) -> int:
    """In the child: fork the worker and end, which makes it a child of the instance."""
    try:
        child = os.fork()
        if child != 0:
            _say(control, worker=number, pid=child)
            os._exit(0)
    except OSError as error:
        _say(control, worker=number, refused=str(error))
        os._exit(1)
    control.close()
    _reseed()
    return worker.serve(bridge, board, lambda own: worker.checked(own, application))


def _reseed() -> None:
    """Give each worker random numbers of its own. Python does so for `random` by itself."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def _say(control: socket.socket, **message: object) -> None:
    # An instance that has gone needs no answer; the next read tells.
    with contextlib.suppress(OSError):
        control.send(json.dumps(message).encode())


if __name__ == "__main__":
    sys.exit(main())
