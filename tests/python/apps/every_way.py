"""One application for the tests of the worker: the path says what to do."""

from __future__ import annotations

import contextvars
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], None]]

TEXT = [("Content-Type", "text/plain")]
CALLS: dict[str, int] = {}
KEPT: list[Any] = []
RELEASE = threading.Event()
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def count(name: str) -> None:
    CALLS[name] = CALLS.get(name, 0) + 1


class Closing:
    """An iterable whose close() is counted, and may raise."""

    def __init__(
        self, name: str, blocks: Iterable[Any], error: BaseException | None = None
    ) -> None:
        self.name, self.blocks, self.error = name, iter(blocks), error

    def __iter__(self) -> Iterator[Any]:
        return self.blocks

    def close(self) -> None:
        count(self.name)
        if self.error is not None:
            raise self.error


def hello(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return [b"hello"]


def echo(environ: Environ, start: Start) -> Iterable[bytes]:
    stream = environ["wsgi.input"]
    body = stream.read()
    assert stream.read() == b""
    stream.seek(0)
    assert stream.read() == body
    start("200 OK", [*TEXT, ("Content-Length", str(len(body)))])
    return [body]


def show_environ(environ: Environ, start: Start) -> Iterable[bytes]:
    assert type(environ) is dict
    shown: dict[str, Any] = {
        key: value for key, value in environ.items() if isinstance(value, str | bool | int)
    }
    shown["types"] = {key: type(value).__name__ for key, value in environ.items()}
    shown["wsgi.version"] = list(environ["wsgi.version"])
    start("200 OK", TEXT)
    return [json.dumps(shown).encode()]


def stream(environ: Environ, start: Start) -> Iterator[bytes]:
    start("404 Not Found", [*TEXT, ("X-Late", "1")])
    yield b""
    yield b"one,"
    yield b""
    yield b"two"


def shapes(environ: Environ, start: Start) -> Any:
    shape = environ["QUERY_STRING"]
    values: dict[str, Any] = {
        "list": [b"a", b"", b"b"],
        "tuple": (b"", b"ab"),
        "empty": [],
        "iter": iter([b"a", b"b"]),
        "empty-iter": iter(()),
        "none": None,
        "yields-none": [None],
        "str": "text",
        "list-of-str": [b"a", "b"],
        "bytes": b"ab",
        "bytearray": [bytearray(b"ab")],
        "late-str": iter([b"a", "b"]),
    }
    start("200 OK", TEXT)
    return values[shape]


def status(environ: Environ, start: Start) -> Iterable[bytes]:
    number, _, length = environ["QUERY_STRING"].partition(",")
    start(f"{number} Whatever", [("Content-Length", length)] if length else [])
    return Closing("status", [b"hello"])


def lengths(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [("Content-Length", environ["QUERY_STRING"])])
    return Closing("lengths", [b"Hello", b"EXTRA"])


def write(environ: Environ, start: Start) -> Iterable[bytes]:
    headers = [("Content-Length", "3")] if environ["QUERY_STRING"] else []
    put = start("200 OK", TEXT + headers)
    put(b"1")
    put(b"")
    put(b"2")
    try:
        put("text")  # type: ignore[arg-type]
    except TypeError:
        pass
    else:
        raise AssertionError("write() took a str")
    return [b"3"]


ERRORS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("secret"),
    "StopIteration": StopIteration,
    "OSError": lambda: ConnectionResetError("secret"),
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "Unprintable": lambda: Unprintable(),
}


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def fail_early(environ: Environ, start: Start) -> Iterable[bytes]:
    raise ERRORS[environ["QUERY_STRING"]]()


def fail_first(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)

    class Raises:
        def __iter__(self) -> Iterator[bytes]:
            return self

        def __next__(self) -> bytes:
            raise ERRORS[environ["QUERY_STRING"]]()

    return Closing("fail-first", Raises())


def fail_late(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    try:
        yield b"part"
        raise ValueError("secret")
    finally:
        count("fail-late")


def fail_close(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    error = ERRORS[environ["QUERY_STRING"]]()
    return Closing("fail-close", [b"part"], error)


def starts(environ: Environ, start: Start) -> Any:
    case = environ["QUERY_STRING"]
    if case == "never":
        return [b"x"]
    if case == "twice":
        start("200 OK", TEXT)
        start("200 OK", TEXT)
    elif case == "too-late":
        return iter([b"x"])
    elif case == "empty-first":
        return late_start(start)
    elif case == "none-given":
        start("200 OK", TEXT, None)
    elif case == "none-by-name":
        start(status="200 OK", response_headers=TEXT, exc_info=None)
    elif case == "replaced":
        start("200 OK", [*TEXT, ("X-Old", "1")])
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError:
            start("500 Oops", [*TEXT, ("X-Replaced", "1")], sys.exc_info())
    elif case == "raised-again":
        put = start("200 OK", TEXT)
        put(b"x")
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError:
            start("500 Oops", TEXT, sys.exc_info())
        raise AssertionError("start_response came back")
    return [b"body"]


def late_start(start: Start) -> Iterator[bytes]:
    yield b""
    start("201 Created", TEXT)
    yield b"x"


BAD_HEADS: dict[str, tuple[Any, Any]] = {
    "value": ("200 OK", [("X", "a\r\nSet-Cookie: x=1")]),
    "value-nul": ("200 OK", [("X", "a\0")]),
    "name": ("200 OK", [("A\r\nB", "1")]),
    "status": ("200 OK\r\nX: y", []),
    "status-word": ("OK", []),
    "bytes-value": ("200 OK", [("X", b"1")]),
    "bytes-name": ("200 OK", [(b"X", "1")]),
    "bytes-status": (b"200 OK", []),
    "int-value": ("200 OK", [("X", 1)]),
    "none-value": ("200 OK", [("X", None)]),
    "tuple": ("200 OK", (("X", "1"),)),
    "no-pair": ("200 OK", ["X: 1"]),
    "triple": ("200 OK", [("X", "1", "2")]),
    "beyond-latin-1": ("200 OK", [("X", "\u4e2d")]),
    "surrogate": ("200 OK", [("X", "\ud800")]),
    "length-int": ("200 OK", [("Content-Length", 5)]),
    "length-word": ("200 OK", [("Content-Length", "abc")]),
    "length-twice": ("200 OK", [("Content-Length", "1"), ("content-length", "1")]),
}


def bad_head(environ: Environ, start: Start) -> Iterable[bytes]:
    start(*BAD_HEADS[environ["QUERY_STRING"]])
    return [b"hello"]


def headers(environ: Environ, start: Start) -> Iterable[bytes]:
    start(
        "200 \xd6K",
        [
            ("P3P", "x"),
            ("eTag", "y"),
            ("Set-Cookie", "1"),
            ("set-cookie", "2"),
            ("Location", "/foob\xe0r"),
            ("DATE", "then"),
            ("server", "mine"),
            ("Transfer-Encoding", "gzip"),
            ("Connection", "keep-alive"),
            ("Keep-Alive", "timeout=5"),
            ("Upgrade", "x"),
        ],
    )
    return [b"ok"]


def wants_close(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [("Connection", "Close")])
    return [b"ok"]


class OnlyRead:
    """Something with read() and nothing else."""

    def __init__(self, data: bytes) -> None:
        self.data = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self.data.read(size)


class CountedFile(io.BytesIO):
    def close(self) -> None:
        count("file")
        super().close()


def files(environ: Environ, start: Start) -> Any:
    wrap = environ["wsgi.file_wrapper"]
    case = environ["QUERY_STRING"]
    size = None
    result: Any
    file: Any
    if case == "bytesio":
        result = wrap(CountedFile(b"x" * 300_000))
    elif case == "only-read":
        result = wrap(OnlyRead(b"y" * 20_000), 4096)
    elif case == "by-name":
        result = wrap(filelike=OnlyRead(b"z"), blksize=1)
    elif case == "position":
        file = open(Path(__file__).with_name("numbers.txt"), "rb")  # noqa: SIM115
        file.seek(5)
        file.read(5)
        size = 4
        result = wrap(file)
    elif case == "pipe":
        read, send = os.pipe()
        os.write(send, b"data")
        os.close(send)
        result = wrap(os.fdopen(read, "rb"))
    else:
        file = CountedFile(b"abc" * 3000)
        # Kept, for Python closes what it throws away.
        KEPT.append(file)
        result = (block.upper() for block in wrap(file, 1000))
    start("200 OK", TEXT if size is None else [*TEXT, ("Content-Length", str(size))])
    return result


def large(environ: Environ, start: Start) -> Iterable[bytes]:
    size = int(environ["QUERY_STRING"])
    start("200 OK", [("Content-Length", str(size))])
    return Closing("large", [bytes(size)])


def endless(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    try:
        while True:
            yield b"tick"
            time.sleep(0.005)
    finally:
        count("endless")


def write_to_the_gone(environ: Environ, start: Start) -> Iterable[bytes]:
    from lurcher import ClientGone

    put = start("200 OK", TEXT)
    try:
        while True:
            put(b"x" * 1000)
            time.sleep(0.002)
    except ClientGone:
        count("gone")
        raise


def hold(environ: Environ, start: Start) -> Iterable[bytes]:
    RELEASE.wait(20)
    start("200 OK", TEXT)
    return [b"held"]


def sleep(environ: Environ, start: Start) -> Iterable[bytes]:
    time.sleep(float(environ["QUERY_STRING"]))
    start("200 OK", TEXT)
    return [b"slept"]


def keep(environ: Environ, start: Start) -> Iterable[bytes]:
    put = start("200 OK", TEXT)
    KEPT.extend([start, put, environ["wsgi.input"], environ["wsgi.errors"]])
    KEPT.append(environ["wsgi.file_wrapper"](io.BytesIO(b"")))
    return [b"kept"]


def use_kept(environ: Environ, start: Start) -> Iterable[bytes]:
    raised = []
    acts: list[Callable[[], object]] = [
        lambda: KEPT[0]("200 OK", []),
        lambda: KEPT[1](b"stray"),
    ]
    for act in acts:
        try:
            act()
        except RuntimeError as error:
            raised.append(str(error))
    thread = threading.Thread(target=lambda: KEPT.clear())
    thread.start()
    thread.join()
    start("200 OK", TEXT)
    return [json.dumps(raised).encode()]


def spoil_environ(environ: Environ, start: Start) -> Iterable[bytes]:
    environ["wsgi.input"] = object()
    environ["wsgi.errors"] = None
    environ.clear()
    start("200 OK", TEXT)
    return [b"spoilt"]


def errors(environ: Environ, start: Start) -> Iterable[bytes]:
    log = environ["wsgi.errors"]
    assert log.write("first ") == 6
    log.write("line\nsecond line\n")
    log.writelines(["\u00c9cole ", "\ud800", "\n"])
    log.write("unfinished")
    log.flush()
    log.write("\x1b[31mforged\r2026")
    try:
        log.write(b"bytes")
    except TypeError:
        count("errors")
    start("200 OK", TEXT)
    return [b"ok"]


def context(environ: Environ, start: Start) -> Iterator[bytes]:
    before = VARIABLE.get()
    VARIABLE.set("set")
    start("200 OK", TEXT)
    yield before.encode()
    yield VARIABLE.get().encode()


def calls(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return [json.dumps(CALLS).encode()]


def read_elsewhere(environ: Environ, start: Start) -> Iterable[bytes]:
    lines: list[bytes] = []
    stream = environ["wsgi.input"]
    thread = threading.Thread(target=lambda: lines.extend(stream))
    thread.start()
    thread.join()
    start("200 OK", TEXT)
    return [json.dumps([line.decode() for line in lines]).encode()]


def set_signal(environ: Environ, start: Start) -> Iterable[bytes]:
    import signal

    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return []


def fork(environ: Environ, start: Start) -> Iterable[bytes]:
    import warnings

    with warnings.catch_warnings():
        # Python 3.12 warns of forks in a process with threads.
        warnings.simplefilter("ignore")
        ready, tell = os.pipe()
        pid = os.fork()
    start("200 OK", TEXT)
    if pid == 0:
        os.write(tell, b"x")
        if environ["QUERY_STRING"]:
            time.sleep(60)
        return [b"child"]
    # A signal that comes before Python has done its part of the fork is lost, under any server.
    os.read(ready, 1)
    os.close(ready)
    os.close(tell)
    if environ["QUERY_STRING"]:
        os.kill(pid, 15)
    return [b"%d" % os.waitpid(pid, 0)[1]]


def recurse(environ: Environ, start: Start) -> Iterable[bytes]:
    return recurse(environ, start)


ROUTES: dict[str, Callable[[Environ, Start], Any]] = {
    "/" + name.replace("_", "-"): value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", None) == __name__
}


def app(environ: Environ, start: Start) -> Any:
    return ROUTES.get(environ["PATH_INFO"], hello)(environ, start)
