"""The application that the end-to-end tests look through: one path for each thing a WSGI application can do.

With PROBE_RECORD in the environment, `record` appends one line per call to that file (one write each, so that lines of
several processes do not mix).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qs

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
TEXT = [("Content-Type", "text/plain; charset=latin-1")]


def record(line: str) -> None:
    name = os.environ.get("PROBE_RECORD")
    if name:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, f"{line}\n".encode("latin-1"))
        finally:
            os.close(fd)


def query(environ: Environ, name: str, default: str = "") -> str:
    values = parse_qs(environ["QUERY_STRING"], keep_blank_values=True, encoding="latin-1")
    return str(values.get(name, [default])[0])


def pause(environ: Environ) -> None:
    """Takes as long as the query's `ms` says."""
    milliseconds = float(query(environ, "ms", "0"))
    if milliseconds:
        time.sleep(milliseconds / 1000)


def answer(
    start_response: StartResponse,
    body: bytes,
    status: str = "200 OK",
    headers: Iterable[tuple[str, str]] = (),
) -> list[bytes]:
    start_response(status, [*TEXT, *headers, ("Content-Length", str(len(body)))])
    return [body]


def plain(value: object) -> object:
    """What JSON can show as it is, else the name of its type."""
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return f"<{type(value).__name__}>"


def show_environ(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """Each key with its value and the value's type."""
    shown = {key: [type(value).__name__, plain(value)] for key, value in environ.items()}
    shown["type(environ)"] = ["str", type(environ).__name__]
    return answer(start_response, json.dumps(shown).encode())


def echo(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """The body back, with what was asked in headers."""
    body = environ["wsgi.input"].read(-1)
    return answer(
        start_response,
        body,
        headers=[
            ("X-Method", environ["REQUEST_METHOD"]),
            ("X-Content-Type", environ.get("CONTENT_TYPE", "absent")),
            ("X-Content-Length", environ.get("CONTENT_LENGTH", "absent")),
            ("X-Path", environ["PATH_INFO"]),
        ],
    )


def number(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """The number in the path, with a line before and a line after it was worked on."""
    asked = environ["PATH_INFO"].rpartition("/")[2]
    record(f"begun {asked} {os.getpid()}")
    pause(environ)
    record(f"done {asked} {os.getpid()}")
    return answer(start_response, asked.encode("latin-1"))


class Blocks:
    """`count` blocks of `size` bytes; records that it was closed."""

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.count = int(query(environ, "count", "5"))
        self.size = int(query(environ, "size", "10"))
        self.made = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self.made == self.count:
            raise StopIteration
        if self.made:
            pause(self.environ)
        self.made += 1
        letter = b"%d" % (self.made % 10)
        return letter * (self.size - 1) + b"\n"

    def close(self) -> None:
        record(f"closed {self.environ['PATH_INFO']} {self.made}")


def stream(environ: Environ, start_response: StartResponse) -> Blocks:
    """`count` blocks of `size` bytes, `ms` apart; `length=1` says before how long it will be."""
    blocks = Blocks(environ)
    headers = list(TEXT)
    if query(environ, "length"):
        headers.append(("Content-Length", str(blocks.count * blocks.size)))
    start_response("200 OK", headers)
    return blocks


def big(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    """`mb` megabytes from a generator, no length known, each block different."""
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    for block in range(int(query(environ, "mb", "1")) * 16):
        yield hashlib.sha256(b"%d" % block).digest() * 2048


def raising(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Raises: before start_response, after it, or in the middle of the body."""
    when = query(environ, "when", "before")
    if when == "before":
        raise RuntimeError("the secret is 4711")
    if when == "exit":
        raise SystemExit(3)
    if when == "after":
        start_response("200 OK", TEXT)
        raise RuntimeError("the secret is 4711")

    def body() -> Iterator[bytes]:
        start_response("200 OK", TEXT)
        yield b"x" * 100_000
        raise RuntimeError("the secret is 4711")

    return body()


def die(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """Ends the worker process from within, by signal or by os._exit."""
    if query(environ, "how", "kill") == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(9)


def who(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """Which process, whose child, which thread."""
    pause(environ)
    shown = {"pid": os.getpid(), "ppid": os.getppid(), "thread": threading.get_ident()}
    return answer(start_response, json.dumps(shown).encode())


def headers(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """Several headers of one name, in order."""
    return answer(
        start_response,
        b"see above",
        headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2; Path=/"), ("X-Latin", "caf\xe9")],
    )


def status(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """The status that is asked for, without a body."""
    code = query(environ, "code", "204")
    start_response(f"{code} As Asked", [("X-Status", code)])
    return []


def write(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """The old way: write(), then an iterable."""
    writer = start_response("200 OK", TEXT)
    writer(b"written, ")
    writer(b"written again, ")
    return [b"returned"]


def errors(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """A line into wsgi.errors and one on stderr."""
    print("to wsgi.errors: " + query(environ, "say"), file=environ["wsgi.errors"])
    environ["wsgi.errors"].flush()
    print("to stderr: " + query(environ, "say"), file=sys.stderr, flush=True)
    return answer(start_response, b"told")


def lines(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """What several ways of reading one body give."""
    body = environ["wsgi.input"]
    got = [body.read(4), body.readline(), body.readlines(), body.read(), body.read(1)]
    body.seek(0)
    again = list(body)
    return answer(start_response, repr([got, again]).encode("latin-1"))


def path(environ: Environ, start_response: StartResponse) -> list[bytes]:
    """The three parts of the path as bytes."""
    parts = [environ[key].encode("latin-1") for key in ("SCRIPT_NAME", "PATH_INFO", "QUERY_STRING")]
    return answer(start_response, repr(parts).encode())


ROUTES: dict[str, Callable[[Environ, StartResponse], Iterable[bytes]]] = {
    "environ": show_environ,
    "echo": echo,
    "number": number,
    "stream": stream,
    "big": big,
    "raise": raising,
    "die": die,
    "who": who,
    "headers": headers,
    "status": status,
    "write": write,
    "errors": errors,
    "lines": lines,
}


def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """The first word of the path chooses; anything else shows the path."""
    word = environ["PATH_INFO"].lstrip("/").partition("/")[0]
    return ROUTES.get(word, path)(environ, start_response)


def make_application() -> Callable[[Environ, StartResponse], Iterable[bytes]]:
    """For `probe:make_application()`."""
    return application


class NotAnApplication:
    """For `probe:nothing`: an object that nobody can call."""


nothing = NotAnApplication()
