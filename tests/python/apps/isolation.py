"""An application that does to its worker what an application should not, and looks at what it is given of threads and
processes: for tests/python/cases/test_concurrency.py. The path says what.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import ctypes
import faulthandler
import gc
import json
import logging
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], None]]

TEXT = [("Content-Type", "text/plain")]
LOADED_BY = os.getpid()
LOADED_IN = threading.current_thread() is threading.main_thread()
NUMBER = random.random()
PAIR = socket.socketpair()
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
KEPT: dict[str, Any] = {}
COUNTS: dict[str, int] = {}
LOCAL = threading.local()
LOCK = threading.Lock()
ALL_SLOTS = threading.Barrier(4)
RELEASE = threading.Event()
SIGNALS: list[int] = []

# Works at import, since that happens in the main thread.
signal.signal(signal.SIGUSR1, lambda number, frame: SIGNALS.append(number))


def count(name: str) -> int:
    with LOCK:
        COUNTS[name] = COUNTS.get(name, 0) + 1
        return COUNTS[name]


def tick() -> None:
    while True:
        count("ticks")
        time.sleep(0.001)


def spin() -> None:
    while True:
        pass


def leave_a_line() -> None:
    with LOCK:
        logging.getLogger().warning("atexit of %d", os.getpid())
        with open(os.environ["ATEXIT_FILE"], "a", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")


if "ATEXIT_FILE" in os.environ:
    atexit.register(leave_a_line)
if "TICKS" in os.environ:
    threading.Thread(target=tick, name="ticks", daemon=True).start()
if "SPINS" in os.environ:
    threading.Thread(target=spin, name="spins", daemon=True).start()


class Failing:
    """Something iterable that fails in the way named."""

    def __init__(self, where: str, error: BaseException) -> None:
        self.where, self.error = where, error
        self.left = [b"part"]

    def __iter__(self) -> Iterator[bytes]:
        if self.where == "iter":
            raise self.error
        return self

    def __next__(self) -> bytes:
        if self.where == "next":
            raise self.error
        if self.left:
            return self.left.pop()
        if self.where == "late":
            raise self.error
        raise StopIteration

    def __len__(self) -> int:
        if self.where == "len":
            raise self.error
        return -7 if self.where == "lie" else 1

    def __bool__(self) -> bool:
        if self.where == "bool":
            raise self.error
        return False

    def __getattribute__(self, name: str) -> Any:
        if name == "close" and object.__getattribute__(self, "where") == "attribute":
            raise object.__getattribute__(self, "error")
        return super().__getattribute__(name)

    def close(self) -> None:
        count("closed")
        if self.where == "close":
            raise self.error

    def __del__(self) -> None:
        if self.where == "del":
            raise self.error


class Hostile(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise SystemExit(4)

    __repr__ = __str__


def too_deep() -> BaseException:
    try:
        return too_deep()
    except RecursionError as error:
        return error


def too_much() -> BaseException:
    try:
        bytearray(sys.maxsize)
    except MemoryError as error:
        return error
    raise AssertionError("there is no such memory")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "SystemExitNone": SystemExit,
    "SystemExitText": lambda: SystemExit("goodbye"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "RecursionError": too_deep,
    "MemoryError": too_much,
    "BrokenPipeError": BrokenPipeError,
    "BaseException": BaseException,
    "Hostile": Hostile,
}


def fail(environ: Environ, start: Start) -> Any:
    where, _, name = environ["QUERY_STRING"].partition(",")
    error = ERRORS[name]()
    if where == "call":
        raise error
    start("200 OK", TEXT)
    if where == "after":
        raise error
    return Failing(where, error)


def leave(environ: Environ, start: Start) -> Any:
    """sys.exit(), and what else ends a program, from within a request."""
    how = environ["QUERY_STRING"]
    if how == "exit":
        sys.exit(2)
    if how == "quit":
        raise SystemExit
    if how == "in-generator":

        def body() -> Iterator[bytes]:
            start("200 OK", TEXT)
            yield b"part"
            sys.exit(2)

        return body()
    if how == "interrupt-main":
        import _thread

        _thread.interrupt_main()
        start("200 OK", TEXT)
        return [b"went on"]
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()
    start("200 OK", TEXT)
    return [b"went on"]


class Rude(list[bytes]):
    """A list that lies."""

    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> Iterator[bytes]:
        return iter([b"a", b"b"])


def rude(environ: Environ, start: Start) -> Any:
    start("200 OK", TEXT)
    return Rude([b"x"])


def recurse(environ: Environ, start: Start) -> Any:
    return recurse(environ, start)


def recurse_in_c(environ: Environ, start: Start) -> Any:
    """Beyond what any stack holds, unless the interpreter stops it."""
    sys.setrecursionlimit(10**6)
    nested: list[Any] = []
    for _ in range(10**6):
        nested = [nested]
    repr(nested)
    return []


def wait_for_all(environ: Environ, start: Start) -> Any:
    """Comes back when all four slots are here."""
    ALL_SLOTS.wait(20)
    start("200 OK", TEXT)
    return [threading.current_thread().name.encode()]


def context(environ: Environ, start: Start) -> Iterator[bytes]:
    before = VARIABLE.get()
    VARIABLE.set(environ["QUERY_STRING"])
    start("200 OK", TEXT)
    yield before.encode()
    yield b"," + VARIABLE.get().encode()
    yield b",%d" % len(contextvars.copy_context())


def keep(environ: Environ, start: Start) -> Any:
    put = start("200 OK", TEXT)
    KEPT.update(
        start=start, put=put, errors=environ["wsgi.errors"], input=environ["wsgi.input"], it=environ
    )
    if environ["QUERY_STRING"] == "raise":
        raise RuntimeError("kept, and raised")
    if environ["QUERY_STRING"] == "stream":
        return Failing("nowhere", RuntimeError())
    return [b"kept"]


def use_kept(environ: Environ, start: Start) -> Any:
    """Each act on what another request had, as the thread named."""
    raised: dict[str, str] = {}

    def handle() -> None:
        try:
            raise ValueError("given")
        except ValueError:
            KEPT["start"]("500 Stray", [("X-Stray", "1")], sys.exc_info())

    acts: dict[str, Callable[[], object]] = {
        "start": lambda: KEPT["start"]("500 Stray", [("X-Stray", "1")]),
        "start_exc_info": handle,
        "write": lambda: KEPT["put"](b"stray"),
        "write_nothing": lambda: KEPT["put"](b""),
        "input": lambda: KEPT["input"].read(),
    }

    def act() -> None:
        for name, do in acts.items():
            try:
                do()
                raised[name] = "nothing"
            except (RuntimeError, ValueError) as error:
                raised[name] = type(error).__name__
        KEPT["errors"].write("kept errors still speak")

    put = start("200 OK", TEXT)
    if environ["QUERY_STRING"] == "between":
        # The own response is half out.
        put(b"first,")
    if environ["QUERY_STRING"] == "elsewhere":
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
    else:
        act()
    KEPT.clear()
    return [json.dumps(raised).encode()]


def own_things(environ: Environ, start: Start) -> Any:
    """Which of the things given are the ones that another request has now."""
    mine = {"start": start, "errors": environ["wsgi.errors"], "input": environ["wsgi.input"]}
    with LOCK:
        others = KEPT.setdefault("others", [])
        others.append({**mine, "environ": environ})
    ALL_SLOTS.wait(20)
    with LOCK:
        same = {
            name for name in mine if len({id(other[name]) for other in others}) != len(others)
        } | (
            {"environ"} if len({id(other["environ"]) for other in others}) != len(others) else set()
        )
    ALL_SLOTS.wait(20)
    KEPT.clear()
    start("200 OK", TEXT)
    return [json.dumps(sorted(same)).encode()]


def drop_elsewhere(environ: Environ, start: Start) -> Any:
    """What was given to this request is dropped by another thread, and by the collector, during and after it."""
    put = start("200 OK", TEXT)
    things: list[Any] = [start, put, *environ.values(), environ["wsgi.file_wrapper"](None)]
    cycle: dict[str, Any] = {"things": list(things)}
    cycle["itself"] = cycle
    try:
        raise RuntimeError
    except RuntimeError as error:
        cycle["error"] = error
    del cycle
    KEPT.setdefault("dropped", []).append(things)

    def drop() -> None:
        KEPT["dropped"].clear()
        gc.collect()

    thread = threading.Thread(target=drop)
    thread.start()
    thread.join()
    return [b"dropped"]


def threads(environ: Environ, start: Start) -> Any:
    """The threads as `threading`, faulthandler and the kernel know them."""
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        dump = file.read().decode()
    kernel = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm", encoding="ascii") as comm:
            kernel.append(comm.read().strip())
    known = {thread.name: [thread.ident, thread.daemon] for thread in threading.enumerate()}
    shown = {
        "known": known,
        "kinds": sorted({type(thread).__name__ for thread in threading.enumerate()}),
        "own": threading.current_thread().name,
        "kernel": kernel,
        "dump": dump,
        "running loop": asyncio._get_running_loop() is not None,
    }
    start("200 OK", TEXT)
    return [json.dumps(shown).encode()]


class Counted:
    """Lives as long as what holds it."""

    def __init__(self) -> None:
        count("locals made")

    def __del__(self) -> None:
        count("locals dropped")


def local(environ: Environ, start: Start) -> Any:
    if not hasattr(LOCAL, "counted"):
        LOCAL.counted = Counted()
    start("200 OK", TEXT)
    return [b"local"]


def counts(environ: Environ, start: Start) -> Any:
    shown = {
        **COUNTS,
        "signals": len(SIGNALS),
        "fds": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }
    start("200 OK", TEXT)
    return [json.dumps(shown).encode()]


def loaded(environ: Environ, start: Start) -> Any:
    PAIR[0].send(b"x")
    shown = {
        "pid": os.getpid(),
        "loaded by": LOADED_BY,
        "in the main thread": LOADED_IN,
        "number": NUMBER,
        "through the pair": PAIR[1].recv(10).decode(),
    }
    start("200 OK", TEXT)
    return [json.dumps(shown).encode()]


async def _some_async_work() -> str:
    await asyncio.sleep(0)
    _, writer = await asyncio.open_connection(sock=socket.socketpair()[0])
    writer.close()
    return (await asyncio.gather(asyncio.sleep(0, "a"), asyncio.sleep(0, "b")))[1]


def run_asyncio(environ: Environ, start: Start) -> Any:
    result = asyncio.run(_some_async_work())
    start("200 OK", TEXT)
    return [result.encode()]


def loop_signals(environ: Environ, start: Start) -> Any:
    """Only the main thread may."""

    async def work() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, lambda: None)

    asyncio.run(work())
    return []


def set_signal(environ: Environ, start: Start) -> Any:
    if environ["QUERY_STRING"] == "wakeup":
        signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    return []


def signal_self(environ: Environ, start: Start) -> Any:
    """The handler set at import runs, in the main thread, while slots are at work."""
    before = len(SIGNALS)
    os.kill(os.getpid(), signal.SIGUSR1)
    deadline = time.monotonic() + 10
    while len(SIGNALS) == before and time.monotonic() < deadline:
        time.sleep(0.001)
    start("200 OK", TEXT)
    return [b"%d" % (len(SIGNALS) - before)]


def run_subprocess(environ: Environ, start: Start) -> Any:
    """What a child process inherits: nothing of ours but the three streams."""
    script = (
        "import os, signal;"
        "print(sorted(os.listdir('/proc/self/fd')), [s.name for s in signal.pthread_sigmask(0, [])])"
    )
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    exited = subprocess.run(["sh", "-c", "exit 3"]).returncode
    killed = subprocess.run(["sh", "-c", "kill -TERM $$"]).returncode
    start("200 OK", TEXT)
    return [json.dumps([child.stdout, child.stderr, exited, killed]).encode()]


def _square(number: int, queue: Any) -> None:
    queue.put(number * number)


def run_multiprocessing(environ: Environ, start: Start) -> Any:
    with warnings.catch_warnings():
        # Python 3.12 warns of forks in a process with threads.
        warnings.simplefilter("ignore")
        way = multiprocessing.get_context(environ["QUERY_STRING"])
        queue = way.SimpleQueue()
        process = way.Process(target=_square, args=(7, queue))
        process.start()
    result = queue.get()
    process.join(20)
    start("200 OK", TEXT)
    return [json.dumps([result, process.exitcode]).encode()]


def fork(environ: Environ, start: Start) -> Any:
    """A child that ends in the way named."""
    how = environ["QUERY_STRING"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        if how == "_exit":
            os._exit(7)
        if how == "sys.exit":
            sys.exit(7)
        if how == "raise":
            raise RuntimeError("in the child")
        if how == "write":
            start("200 OK", TEXT)(b"from the child")
        if how == "start":
            start("200 OK", TEXT)
        return [b"of the child"]
    status = os.waitpid(pid, 0)[1]
    start("200 OK", TEXT)
    return [b"%d" % os.waitstatus_to_exitcode(status)]


def log_tightly(environ: Environ, start: Start) -> Any:
    """Logs in eight threads for as long as the query says, while signals come."""
    logger = logging.getLogger("tight")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler(environ["wsgi.errors"]))
    end = time.monotonic() + float(environ["QUERY_STRING"])

    def work() -> None:
        while time.monotonic() < end:
            logger.warning("tight")
            print("tight", file=environ["wsgi.errors"])

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    start("200 OK", TEXT)
    return [b"logged"]


def linger(environ: Environ, start: Start) -> Any:
    """Leaves threads behind: one that is no daemon and ends by itself; daemons that use what they were given."""
    put = start("200 OK", TEXT)

    def use() -> None:
        while True:
            environ["wsgi.errors"].write("")
            for act in (lambda: start("200 OK", []), lambda: put(b"x")):
                try:
                    act()
                except RuntimeError:
                    count("refused")

    threading.Thread(target=lambda: time.sleep(0.5)).start()
    for _ in range(3):
        threading.Thread(target=use, daemon=True).start()
    return [b"lingering"]


def endless(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    count("endless begun")
    try:
        while True:
            yield b"tick\n"
            time.sleep(0.1)
    finally:
        count("endless closed")


def hold(environ: Environ, start: Start) -> Any:
    if "HELD_FILE" in os.environ:
        with open(os.environ["HELD_FILE"], "a", encoding="ascii") as file:
            file.write("x")
    RELEASE.wait(float(environ["QUERY_STRING"] or "20"))
    start("200 OK", TEXT)
    return [b"held"]


def die(environ: Environ, start: Start) -> Any:
    how = environ["QUERY_STRING"]
    if how == "exit":
        os._exit(1)
    if how == "abort":
        os.abort()
    ctypes.string_at(0)
    return []


def say(environ: Environ, start: Start) -> Any:
    """Text that no 7-bit terminal shows, by every way an application speaks."""
    text = "\u00c9cole \u6c34"
    print(text, flush=True)
    print(text, file=sys.stderr, flush=True)
    environ["wsgi.errors"].write(f"{text} \ud800\n")
    logging.getLogger("say").warning("%s \ud800", text)
    start("200 OK", TEXT)
    return [b"said"]


def shout(environ: Environ, start: Start) -> Any:
    """Raises, while `hold` keeps the process busy."""
    raise RuntimeError("shouted " + environ["QUERY_STRING"])


def hello(environ: Environ, start: Start) -> Any:
    start("200 OK", TEXT)
    return [b"hello"]


def post(environ: Environ, start: Start) -> Any:
    body = environ["wsgi.input"].read()
    start("200 OK", TEXT)
    return iter([body])


def usual(environ: Environ, start: Start) -> Any:
    """How many references there are to objects that every request touches."""
    gc.collect()
    shared: dict[str, Any] = {
        "None": None,
        "True": True,
        "empty bytes": b"",
        "app": app,
        "start_response type": type(start),
        "errors type": type(environ["wsgi.errors"]),
        "file_wrapper": environ["wsgi.file_wrapper"],
        "software": environ["SERVER_SOFTWARE"],
        "version": environ["wsgi.version"],
        "dict": dict,
    }
    shown = {name: sys.getrefcount(value) for name, value in shared.items()}
    shown["objects"] = len(gc.get_objects())
    shown["threads"] = threading.active_count()
    total = getattr(sys, "gettotalrefcount", None)
    if total is not None:
        shown["total"] = total()
    start("200 OK", TEXT)
    return [json.dumps(shown).encode()]


ROUTES: dict[str, Callable[[Environ, Start], Any]] = {
    "/" + name.replace("_", "-"): value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", None) == __name__
}


def app(environ: Environ, start: Start) -> Iterable[bytes]:
    result: Iterable[bytes] = ROUTES.get(environ["PATH_INFO"], hello)(environ, start)
    return result
