"""An application that reads its input in every way, for tests/python/cases/test_input.py: the path says how."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], None]]

KEPT: list[Any] = []
RUNS: list[str] = []


def reads(stream: Any, how: str) -> list[Any]:
    """What a way of reading gives, shown as text; several after each other are separated by commas."""
    got: list[Any] = []
    for step in how.split(","):
        name, _, number = step.partition(":")
        if name == "iterate":
            got.append([line.decode("latin-1") for line in stream])
        elif name == "readinto":
            space = bytearray(b"." * int(number))
            got.append([stream.readinto(space), space.decode("latin-1")])
        elif name == "tell":
            got.append(stream.tell())
        elif name == "bool":
            got.append(bool(stream))
        else:
            value = getattr(stream, name)(*([int(number)] if number else []))
            if isinstance(value, list):
                value = [line.decode("latin-1") for line in value]
            elif isinstance(value, bytes):
                value = value.decode("latin-1")
            got.append(value)
    return got


def read(environ: Environ) -> object:
    return reads(environ["wsgi.input"], environ["QUERY_STRING"])


def read_elsewhere(environ: Environ) -> object:
    """The same in another thread."""
    got: list[Any] = []
    how = environ["QUERY_STRING"]
    thread = threading.Thread(target=lambda: got.extend(reads(environ["wsgi.input"], how)))
    thread.start()
    thread.join()
    return got


def terminated(environ: Environ) -> object:
    length = environ.get("CONTENT_LENGTH", "absent")
    coding = environ.get("HTTP_TRANSFER_ENCODING", "absent")
    rest = environ["wsgi.input"].read()
    return [repr(environ.get("wsgi.input_terminated")), length, coding, len(rest)]


def ignore(environ: Environ) -> object:
    return "not read"


def close(environ: Environ) -> object:
    environ["wsgi.input"].close()
    return "closed"


def spoil(environ: Environ) -> object:
    KEPT.append(environ["wsgi.input"])
    environ["wsgi.input"] = object()
    environ["wsgi.errors"] = None
    del environ["PATH_INFO"]
    if environ["QUERY_STRING"] == "all":
        environ.clear()
    return "spoilt"


def keep(environ: Environ) -> object:
    KEPT.append(environ["wsgi.input"])
    if environ["QUERY_STRING"] == "exported":
        KEPT.append(environ["wsgi.input"].getbuffer())
    return "kept"


def use_kept(environ: Environ) -> object:
    """What each way of reading a kept input raises."""
    stream = KEPT[0]
    acts: dict[str, Callable[[], object]] = {
        "read": stream.read,
        "readline": stream.readline,
        "readlines": stream.readlines,
        "iterate": lambda: next(iter(stream)),
        "seek": lambda: stream.seek(0),
        "write": lambda: stream.write(b"stray"),
        "readinto": lambda: stream.readinto(bytearray(3)),
    }
    raised = {}

    def act() -> None:
        for name, do in acts.items():
            try:
                raised[name] = f"gave {do()!r}"
            except Exception as error:
                raised[name] = type(error).__name__

    if environ["QUERY_STRING"] == "elsewhere":
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
    else:
        act()
    KEPT.clear()
    return raised


def runs(environ: Environ) -> object:
    return len(RUNS)


ROUTES: dict[str, Callable[[Environ], object]] = {
    "/" + function.__name__.replace("_", "-"): function
    for function in (
        read,
        read_elsewhere,
        terminated,
        ignore,
        close,
        spoil,
        keep,
        use_kept,
        runs,
    )
}


def app(environ: Environ, start: Start) -> Iterable[bytes]:
    route = ROUTES[environ["PATH_INFO"]]
    RUNS.append(environ["PATH_INFO"])
    body = json.dumps(route(environ)).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
