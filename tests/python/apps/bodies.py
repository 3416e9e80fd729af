"""Every kind of body, right and wrong: the path names it. `/noted?WORD` tells how often something was closed."""

from __future__ import annotations

import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from afterwards import AFTER, after

Environ = dict[str, Any]
Start = Callable[..., Callable[[Any], None]]

TEXT = [("Content-Type", "text/plain")]
NOTES: dict[str, int] = {}
LOCK = threading.Lock()
RELEASE: dict[str, threading.Event] = {}


def note(word: str) -> None:
    with LOCK:
        NOTES[word] = NOTES.get(word, 0) + 1


def noted(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return [str(NOTES.get(environ["QUERY_STRING"], 0)).encode()]


class Closing:
    """An iterable, no iterator, that notes its close()."""

    def __init__(self, word: str, blocks: Iterable[Any]) -> None:
        self.word, self.blocks = word, blocks

    def __iter__(self) -> Iterator[Any]:
        return iter(self.blocks)

    def close(self) -> None:
        note(self.word)


class ClosingList(list[bytes]):
    """A list that wants to be closed, and lies about its length."""

    word = ""

    def __len__(self) -> int:
        return 99

    def close(self) -> None:
        note(self.word)


class HostileLength(list[bytes]):
    def __len__(self) -> int:
        raise ZeroDivisionError("no length")


class HostileLengthTuple(tuple[bytes, ...]):
    def __len__(self) -> int:
        return 1


class BytesKind(bytes):
    pass


# Bodies that are none: 500 before the head, a cut after it.


def wrong(kind: str) -> Any:
    return {
        "none": None,
        "yields-none": [None],
        "str": "text",
        "list-of-str": ["text"],
        "bytes": b"text",
        "int": 5,
        "object": object(),
        "list-of-int": [5],
        "list-of-lists": [[b"x"]],
        "bytearray": [bytearray(b"x")],
        "memoryview": [memoryview(b"x")],
        "mixed-list": [b"a", "b"],
        "generator-of-str": (x for x in ["a"]),
        "generator-of-none": (x for x in [None]),
        "tuple-of-str": ("a",),
        "function": note,
    }[kind]


def wrongs(environ: Environ, start: Start) -> Any:
    start("200 OK", TEXT)
    return wrong(environ["QUERY_STRING"])


def nothing_with_204(environ: Environ, start: Start) -> Any:
    start("204 No Content", [])
    return None


def empty_with_204(environ: Environ, start: Start) -> Any:
    start("204 No Content", [])
    return []


def late(environ: Environ, start: Start) -> Iterator[Any]:
    start("200 OK", TEXT)
    yield b"a"
    yield {"str": "b", "none": None, "bytearray": bytearray(b"b"), "int": 1}[
        environ["QUERY_STRING"]
    ]


def rights(environ: Environ, start: Start) -> Any:
    start("200 OK", TEXT)
    return {
        "list": [b"ab", b"c"],
        "single": [b"abc"],
        "tuple": (b"ab", b"c"),
        "iterator": iter([b"ab", b"c"]),
        "generator": (x for x in [b"ab", b"c"]),
        "map": map(bytes, [b"ab", b"c"]),
        "dict": {b"ab": 1, b"c": 2},
        "subclass": [BytesKind(b"abc")],
        "lying-list": ClosingList([b"ab", b"c"]),
        "hostile-list": HostileLength([b"ab", b"c"]),
        "lying-tuple": HostileLengthTuple((b"ab", b"c")),
        "file": io.BytesIO(b"abc"),
        "old-style": OldStyle([b"ab", b"c"]),
    }[environ["QUERY_STRING"]]


class OldStyle:
    """Iterable by its items alone, as the PEP's time had it."""

    def __init__(self, items: list[bytes]) -> None:
        self.items = items

    def __getitem__(self, at: int) -> bytes:
        return self.items[at]


# close().


def raising(word: str) -> Iterator[bytes]:
    yield b"part"
    raise ValueError(word)


def raising_first(word: str) -> Iterator[bytes]:
    raise ValueError(word)
    yield


class NoIter:
    """Its iteration cannot even begin."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __iter__(self) -> Iterator[bytes]:
        raise ValueError(self.word)

    def close(self) -> None:
        note(self.word)


def closings(environ: Environ, start: Start) -> Any:
    kind, _, word = environ["QUERY_STRING"].partition(",")
    status, headers = "200 OK", list(TEXT)
    body: Any = Closing(word, [b"ab", b"c"])
    if kind in ("204", "304"):
        status, headers = f"{kind} x", []
    elif kind == "empty":
        body = Closing(word, [])
    elif kind == "empty-blocks":
        body = Closing(word, [b"", b""])
    elif kind == "raises":
        body = Closing(word, raising(word))
    elif kind == "raises-first":
        body = Closing(word, raising_first(word))
    elif kind == "no-iter":
        body = NoIter(word)
    elif kind == "early":
        headers.append(("Content-Length", "1"))
    elif kind == "short":
        headers.append(("Content-Length", "9"))
    elif kind == "wrong-block":
        body = Closing(word, ["str"])
    elif kind == "list":
        body = ClosingList([b"ab", b"c"])
        body.word = word
    elif kind == "never-started":
        return body
    elif kind == "file":
        body = environ["wsgi.file_wrapper"](NotingFile(word, b"abc"))
    elif kind == "file-by-hand":
        wrapper = environ["wsgi.file_wrapper"](NotingFile(word, b"abc"))
        body = Closing("", list(wrapper))
        wrapper.close()
        wrapper.close()
    elif kind == "file-early":
        headers.append(("Content-Length", "1"))
        body = environ["wsgi.file_wrapper"](NotingFile(word, b"abc"))
    elif kind == "file-raises":
        body = environ["wsgi.file_wrapper"](RaisingFile(word))
    elif kind == "file-204":
        status, headers = "204 x", []
        body = environ["wsgi.file_wrapper"](NotingFile(word, b"abc"))
    start(status, headers)
    return body


class NotingFile(io.BytesIO):
    """Notes its close(), and not the one that Python makes when it throws it away."""

    kept: list[NotingFile] = []  # noqa: RUF012

    def __init__(self, word: str, data: bytes) -> None:
        super().__init__(data)
        self.word = word
        self.kept.append(self)

    def close(self) -> None:
        note(self.word)
        super().close()


class RaisingFile(NotingFile):
    def __init__(self, word: str) -> None:
        super().__init__(word, b"x")

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError("the disk is gone")


def generator_with_finally(environ: Environ, start: Start) -> Iterator[bytes]:
    kind, _, word = environ["QUERY_STRING"].partition(",")
    start("200 OK", TEXT)
    try:
        yield b"part"
        if kind == "raises":
            raise ValueError(word)
        while True:
            yield b"tick"
            # The pace of the stream; only a client that leaves ends it.
            RELEASE.setdefault(word, threading.Event()).wait(0.01)
    finally:
        note(word)


def fails_in_close(environ: Environ, start: Start) -> Any:
    class Body:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"part"])

        def close(self) -> None:
            raise ValueError("in close")

    start("200 OK", TEXT)
    return Body()


# Lengths.


def lengths(environ: Environ, start: Start) -> Any:
    """`LENGTH,KIND`: Hello, and more, in several ways."""
    length, _, kind = environ["QUERY_STRING"].partition(",")
    write = start("200 OK", [*TEXT, ("Content-Length", length)])
    if kind == "list":
        return [b"Hello", b"EXTRA"]
    if kind == "block":
        return iter([b"HelloEXTRA"])
    if kind == "blocks":
        return Closing(f"lengths-{length}", counted([b"He", b"llo", b"EXTRA", b"EVEN MORE"]))
    if kind == "write":
        write(b"Hello")
        write(b"EXTRA")
        return []
    if kind == "both":
        write(b"Hel")
        return [b"loEXTRA"]
    return environ["wsgi.file_wrapper"](io.BytesIO(b"HelloEXTRA"))


def counted(blocks: list[bytes]) -> Iterator[bytes]:
    for block in blocks:
        note("blocks")
        yield block


def both_sides(environ: Environ, start: Start) -> Iterable[bytes]:
    """Reads more than there is, and yields more than it said."""
    data = environ["wsgi.input"].read(10**6)
    start("200 OK", [("Content-Length", "5")])
    return iter([data[:3], data[3:], b"EXTRA"])


def statuses(environ: Environ, start: Start) -> Iterable[bytes]:
    """`STATUS,LENGTH,KIND`."""
    status, length, kind = environ["QUERY_STRING"].split(",")
    write = start(f"{status} x", [("Content-Length", length)] if length else [])
    if kind == "write":
        write(b"hello")
    return {"list": [b"hello"], "iter": iter([b"hel", b"lo"]), "empty": [], "write": []}[kind]


def heads(environ: Environ, start: Start) -> Any:
    """For HEAD: a body in several ways."""
    kind = environ["QUERY_STRING"]
    headers = list(TEXT)
    if kind.startswith("length"):
        headers.append(("Content-Length", "5"))
    write = start("200 OK", headers)
    if kind == "write":
        write(b"hello")
    return {
        "list": [b"hello"],
        "length": [b"hello"],
        "length-iter": iter([b"hel", b"lo"]),
        "length-empty": [],
        "iter": iter([b"hel", b"lo"]),
        "empty": [],
        "empty-iter": iter(()),
        "write": [],
        "file": environ["wsgi.file_wrapper"](io.BytesIO(b"hello")),
    }[kind]


def empty_iterator(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [("X", "1")])
    return {"iterator": iter(()), "list": [], "tuple": (), "generator": (x for x in [b""])}[
        environ["QUERY_STRING"]
    ]


# write().


def writes(environ: Environ, start: Start) -> Iterable[bytes]:
    length = environ["QUERY_STRING"]
    write = start("200 OK", [*TEXT, ("Content-Length", length)] if length else TEXT)
    write(b"1")
    write(b"")
    write(b"2")
    for wrong in ("3", bytearray(b"3"), memoryview(b"3"), None, 3):
        try:
            write(wrong)
        except TypeError:
            continue
        raise AssertionError(f"write() took {wrong!r}")
    return [b"3"]


def writes_text(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)("text")
    return [b"x"]


# Exceptions of the application that look like the server's own.


class HTTPError(OSError):
    """As the one of requests is."""


ERRORS: dict[str, Callable[[], BaseException]] = {
    "FileNotFoundError": lambda: FileNotFoundError("x"),
    "HTTPError": lambda: HTTPError("x"),
    "StopIteration": lambda: StopIteration("x"),
    "StopAsyncIteration": lambda: StopAsyncIteration("x"),
    "ConnectionResetError": lambda: ConnectionResetError("x"),
    "BrokenPipeError": lambda: BrokenPipeError("x"),
    "TimeoutError": lambda: TimeoutError("x"),
    "InterruptedError": lambda: InterruptedError("x"),
    "BlockingIOError": lambda: BlockingIOError("x"),
    "EOFError": lambda: EOFError("x"),
    "ClientGone": lambda: client_gone(),
    "GeneratorExit": lambda: GeneratorExit("x"),
    "MemoryError": lambda: MemoryError("x"),
    "RecursionError": lambda: RecursionError("x"),
}


def client_gone() -> BaseException:
    from lurcher import ClientGone

    return ClientGone("x")


def errors(environ: Environ, start: Start) -> Iterable[bytes]:
    raise ERRORS[environ["QUERY_STRING"]]()


def errors_in_next(environ: Environ, start: Start) -> Any:
    class Body:
        def __iter__(self) -> Body:
            return self

        def __next__(self) -> bytes:
            raise ERRORS[environ["QUERY_STRING"]]()

    start("200 OK", TEXT)
    return Body()


def errors_after_start(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", [*TEXT, ("Content-Length", "999"), ("X-Old", "1")])
    raise ERRORS[environ["QUERY_STRING"]]()


def raises_in_the_middle(environ: Environ, start: Start) -> Iterator[bytes]:
    length = environ["QUERY_STRING"]
    start("200 OK", [*TEXT, ("Content-Length", length)] if length else TEXT)
    yield b"part"
    raise ValueError("in the middle")


# Files.


class OnlyRead:
    """Something with read() and nothing else."""

    def __init__(self, data: bytes) -> None:
        self.data = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self.data.read(size)


def real_file(data: bytes, buffered: bool = True) -> Any:
    file = tempfile.TemporaryFile(buffering=-1 if buffered else 0)  # noqa: SIM115
    file.write(data)
    file.seek(0)
    return file


def pipe(data: bytes) -> Any:
    read, send = os.pipe()
    os.write(send, data)
    os.close(send)
    return os.fdopen(read, "rb")


def uppers(wrapped: Any) -> Iterator[bytes]:
    for block in wrapped:
        yield block.upper()


def iterated(wrapped: Any) -> Iterator[bytes]:
    assert iter(wrapped) is wrapped
    yield next(wrapped)
    yield from wrapped
    try:
        next(wrapped)
    except StopIteration:
        yield b"."
    wrapped.close()


def files(environ: Environ, start: Start) -> Any:
    wrap = environ["wsgi.file_wrapper"]
    kind = environ["QUERY_STRING"]
    data = b"0123456789"
    headers = list(TEXT)
    file: Any
    if kind == "bytesio":
        body = wrap(io.BytesIO(data))
    elif kind == "only-read":
        body = wrap(OnlyRead(data))
    elif kind == "real":
        body = wrap(real_file(data))
    elif kind == "raw":
        body = wrap(real_file(data, buffered=False))
    elif kind == "size":
        body = wrap(io.BytesIO(data), 4)
    elif kind == "size-by-name":
        body = wrap(filelike=io.BytesIO(data), blksize=4)
    elif kind == "size-of-one":
        body = wrap(OnlyRead(data), 1)
    elif kind == "seek":
        file = real_file(data)
        file.seek(5)
        headers.append(("Content-Length", "5"))
        body = wrap(file)
    elif kind == "read":
        file = real_file(data)
        file.read(5)
        headers.append(("Content-Length", "5"))
        body = wrap(file)
    elif kind == "part":
        file = real_file(data)
        file.seek(2)
        headers.append(("Content-Length", "3"))
        body = wrap(file, 2)
    elif kind == "seek-without-length":
        file = real_file(data)
        file.seek(5)
        body = wrap(file)
    elif kind == "pipe":
        body = wrap(pipe(data))
    elif kind == "upper":
        body = uppers(wrap(io.BytesIO(b"abc"), 2))
    elif kind == "iterated":
        body = iterated(wrap(io.BytesIO(data), 4))
    elif kind == "begun":
        body = wrap(io.BytesIO(data), 4)
        next(body)
    elif kind == "empty":
        body = wrap(io.BytesIO(b""))
    elif kind == "text":
        body = wrap(io.StringIO("text"))
    elif kind == "nothing":
        body = wrap(object())
    else:
        raise AssertionError(kind)
    start("200 OK", headers)
    return body


LARGE = 8 * 1024 * 1024


def large_file(environ: Environ, start: Start) -> Any:
    """8 MiB, each 8 bytes their own place."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    for at in range(0, LARGE, 65536):
        file.write(b"".join(b"%08d" % place for place in range(at // 8, at // 8 + 8192)))
    file.seek(0)
    start("200 OK", [("Content-Length", str(LARGE))])
    return environ["wsgi.file_wrapper"](file)


# Past 4 GiB, where 32 bits end.
HUGE = (4 << 30) + (256 << 20)


def huge_file(environ: Environ, start: Start) -> Any:
    """A file with a large hole in it; with a query, what stands from there."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.seek(HUGE - 4)
    file.write(b"tail")
    begin = int(environ["QUERY_STRING"] or 0)
    file.seek(begin)
    start("200 OK", [("Content-Length", str(HUGE - begin))])
    return environ["wsgi.file_wrapper"](file)


def fast(environ: Environ, start: Start) -> Iterator[bytes]:
    """2000 blocks of 1 MiB, as fast as they are taken."""
    start("200 OK", TEXT)
    try:
        for _ in range(2000):
            note("fast")
            yield bytes(1 << 20)
    finally:
        note("fast-closed")


ROUTES: dict[str, Callable[[Environ, Start], Any]] = {
    "/" + name.replace("_", "-"): value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", None) == __name__
}


def application(environ: Environ, start: Start) -> Any:
    if environ["PATH_INFO"] == AFTER:
        return after(environ, start)
    return ROUTES[environ["PATH_INFO"]](environ, start)
