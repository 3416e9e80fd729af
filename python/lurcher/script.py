"""``lurcher.serve(application)``: the last line of a script that has its application as an object.

The script's process starts ``lurcher serve`` and becomes the place where workers come from: each is a fork of it, so
that no import path is needed. What the instance starts as a worker (``lurcher.worker``) is then a stand-in, which hands
its two descriptors to this process and ends when the fork does.
"""

import contextlib
import fcntl
import gc
import os
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

# Names in the environment: where workers are forked, and whose end is the command's.
FORKS = "LURCHER_FORKS"
SERVED_BY = "LURCHER_SERVED_BY"

Setting = str | int | float | bool | list[str] | None


def serve(
    application: Callable[..., Any],
    bind: str | list[str] = "127.0.0.1:8000",
    *,
    workers: int = 1,
    threads: int = 4,
    **settings: Setting,
) -> None:
    """Serve a WSGI application object over HTTP until SIGINT or SIGTERM.

    To be called in the main thread, before any other thread is started: workers are forked from this process. `bind`
    is an address or a list of them (`HOST:PORT`, `[IPV6]:PORT`, `unix:PATH`); port 0 takes a free one and prints it.
    Further settings are the options of ``lurcher serve`` with `_` for `-`: ``access_log="-"``, ``lint=True``.

    Raises RuntimeError where it cannot fork, and SystemExit with the exit code when the server cannot go on.
    """
    if not callable(application):
        raise TypeError(f"a WSGI application is callable; {type(application).__name__} is not")
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("lurcher.serve() must be called in the main thread")
    others = threading.active_count() - 1
    if others:
        names = ", ".join(t.name for t in threading.enumerate() if t is not threading.main_thread())
        raise RuntimeError(
            f"lurcher.serve() forks its workers from this process, which cannot be done with other threads running "
            f"({names}): call it before they are started, start them in the application, or use the command "
            f"`lurcher serve MODULE:NAME`"
        )
    if settings.get("preload"):
        raise ValueError(
            "preload: the application is loaded in this script, and its workers are forks of it"
        )
    words = _words({"bind": bind, "workers": workers, "threads": threads, **settings})
    directory = tempfile.mkdtemp(prefix="lurcher-")
    # Locked while it is in use: one that is not, as after a SIGKILL, is cleared away by the next command.
    lock = os.open(directory, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        code = _Forks(application, Path(directory)).run(words)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)
    if code:
        raise SystemExit(code)


def _words(settings: dict[str, Setting]) -> list[str]:
    """Settings as words of a command line."""
    words = []
    for key, value in settings.items():
        name = key.replace("_", "-")
        if value is True:
            words.append(f"--{name}")
        elif value is False:
            words.append(f"--no-{name}")
        elif isinstance(value, list):
            words += [f"--{name}={item}" for item in value]
        elif value is not None:
            words.append(f"--{name}={value}")
    return words


class _Forks:
    """Starts the command, and forks a worker for each stand-in that asks."""

    def __init__(self, application: Callable[..., Any], directory: Path) -> None:
        self.application = application
        self.directory = directory
        self.pid = os.getpid()
        self.served: subprocess.Popen[bytes] | None = None
        # Signals that came before there was anybody to hand them to.
        self.early: list[int] = []
        self.selector = selectors.DefaultSelector()
        # Which stand-in waits for which worker.
        self.stand_ins: dict[int, socket.socket] = {}

    def run(self, words: list[str]) -> int:
        """Until the command has ended; its exit code, with a minus if a signal ended it."""
        path = self.directory / "forks"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(64)
            listener.setblocking(False)
            self.selector.register(listener, selectors.EVENT_READ)
            woken, before = self._take_signals()
            self.selector.register(woken, selectors.EVENT_READ)
            try:
                command = [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]
                command += ["-m", "lurcher", "serve", "script:application", *words]
                env = {**os.environ, FORKS: str(path), SERVED_BY: str(self.pid)}
                # In a session of its own: a Ctrl-C reaches it through us, as a signal to us alone does, and so once.
                self.served = subprocess.Popen(command, env=env, start_new_session=True)  # noqa: S603
                for number in self.early:
                    self.served.send_signal(number)
                # What is there now is shared by all workers, and needs no looking through in each.
                gc.collect()
                gc.freeze()
                return self._loop(self.served, listener, woken)
            finally:
                gc.unfreeze()
                for number, handler in before.items():
                    signal.signal(number, handler)
                signal.set_wakeup_fd(-1)
                woken.close()

    def _take_signals(self) -> tuple[socket.socket, dict[int, Any]]:
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        self.wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        handlers = {
            signal.SIGINT: self._pass_on,
            signal.SIGTERM: self._pass_on,
            signal.SIGHUP: self._pass_on,
            signal.SIGCHLD: self._nothing,
        }
        return woken, {number: signal.signal(number, what) for number, what in handlers.items()}

    def _nothing(self, number: int, frame: FrameType | None) -> None:
        pass

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self.pid:
            return
        if self.served is None:
            self.early.append(number)
        else:
            self.served.send_signal(number)

    def _loop(
        self, served: subprocess.Popen[bytes], listener: socket.socket, woken: socket.socket
    ) -> int:
        while served.poll() is None:
            for key, _ in self.selector.select():
                if key.fileobj is woken:
                    with contextlib.suppress(BlockingIOError):
                        woken.recv(4096)
                    self._reap()
                elif key.fileobj is listener:
                    with contextlib.suppress(BlockingIOError):
                        stand_in, _ = listener.accept()
                        self.selector.register(stand_in, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    self._asked(key.fileobj)
        for pid in self.stand_ins:
            os.kill(pid, signal.SIGKILL)
        while self.stand_ins:
            self._reap(0)
        return served.returncode

    def _asked(self, stand_in: socket.socket) -> None:
        """Forks, the first time; later the stand-in hands on a signal, or is gone and its worker with it."""
        message, descriptors, _, _ = socket.recv_fds(stand_in, 1, 2)
        pid = next((pid for pid, other in self.stand_ins.items() if other is stand_in), None)
        if len(descriptors) == 2 and pid is None:
            self._fork(stand_in, *descriptors)
        elif message and pid is not None:
            os.kill(pid, message[0])
        else:
            self.selector.unregister(stand_in)
            stand_in.close()
            if pid is not None:
                os.kill(pid, signal.SIGKILL)

    def _fork(self, stand_in: socket.socket, bridge: int, board: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
            if pid == 0:
                self._be_a_worker(bridge, board)
            self.stand_ins[pid] = stand_in
        except OSError as error:
            # No more processes or memory for now: the stand-in ends as a worker would, and the instance tries again.
            sys.stderr.write(f"lurcher: cannot fork a worker: {error}\n")
            self.selector.unregister(stand_in)
            stand_in.close()
        finally:
            os.close(bridge)
            os.close(board)

    def _be_a_worker(self, bridge: int, board: int) -> NoReturn:
        """In the fork; it does not come back into the script."""
        # Not above: it is run as the main module where an instance starts it.
        from lurcher import worker

        code = worker.EXIT_INTERNAL
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            self.wake.close()
            for key in list(self.selector.get_map().values()):
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()
            self.selector.close()
            code = worker.serve(bridge, board, lambda own: worker.checked(own, self.application))
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _reap(self, options: int = os.WNOHANG) -> None:
        """Tells stand-ins how their workers ended."""
        for pid, stand_in in list(self.stand_ins.items()):
            ended, status = os.waitpid(pid, options)
            if ended:
                del self.stand_ins[pid]
                code = os.waitstatus_to_exitcode(status)
                with contextlib.suppress(OSError):
                    stand_in.sendall(code.to_bytes(2, "big", signed=True))
                with contextlib.suppress(KeyError, ValueError):
                    self.selector.unregister(stand_in)
                stand_in.close()


def stand_in(path: str, bridge: int, board: int) -> int:
    """What the instance has started as a worker: one of the script's forks works in its place."""
    with socket.socket(socket.AF_UNIX) as forks:
        forks.connect(path)
        woken, wake = socket.socketpair()
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        # The instance's to act on, as in a worker.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        socket.send_fds(forks, [b"\0"], [bridge, board])
        # Ours stay open, so that the instance does not see the end of the bridge before it can see that of its worker.
        while True:
            ready, _, _ = select.select([forks, woken], [], [])
            if forks in ready:
                code = int.from_bytes(forks.recv(2), "big", signed=True)
                break
            for number in woken.recv(64):
                if number == signal.SIGTERM:
                    forks.sendall(bytes([number]))
    if code < 0:
        # Ended by a signal: so does this one, for the instance to see.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code
