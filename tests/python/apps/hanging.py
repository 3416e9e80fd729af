"""An application that does not come to an end, in several ways."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterable, Iterator
from typing import IO, Any

import probe

from lurcher import RequestTimeout


def sleep(seconds: float) -> None:
    """Hangs outside of Python: an exception in this thread waits until it is over."""
    probe.record("sleeps")
    time.sleep(seconds)


def compute(seconds: float) -> None:
    """Runs Python code; swallows what most code swallows."""
    until = time.monotonic() + seconds
    try:
        try:
            while time.monotonic() < until:
                pass
        except Exception:
            probe.record("swallowed")
    except RequestTimeout as error:
        probe.record(f"cleaned up {type(error).__name__}")
        raise


def edge(seconds: float) -> None:
    """Ends at about the moment at which its time is over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def quick() -> None:
    """A little Python code, in which an exception for somebody else would be raised."""
    try:
        for _ in range(2000):
            pass
    except BaseException:
        probe.record("quick was interrupted")
        raise


def drip() -> Iterator[bytes]:
    try:
        for _ in range(3600):
            yield b"drop\n"
            time.sleep(0.1)
    finally:
        probe.record("closed drip")


def hold() -> None:
    """A call into C that keeps the interpreter to itself."""
    ctypes.PyDLL(None).usleep(3600 * 1000 * 1000)


def pipe(seconds: float) -> IO[bytes]:
    """A file whose end comes after so long, read by the server without any Python code."""
    reads, writes = os.pipe()
    threading.Timer(seconds, os.close, (writes,)).start()
    return os.fdopen(reads, "rb", 0)


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    word = environ["PATH_INFO"].lstrip("/").partition("/")[0]
    seconds = float(probe.query(environ, "for", "0"))
    if word == "drip":
        start_response("200 OK", probe.TEXT)
        return drip()
    if word == "pipe":
        start_response("200 OK", probe.TEXT)
        wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](pipe(seconds))
        return wrapped
    if word in ("sleep", "compute", "edge"):
        {"sleep": sleep, "compute": compute, "edge": edge}[word](seconds)
    elif word == "hold":
        hold()
    elif word == "number":
        return probe.application(environ, start_response)
    else:
        quick()
    return probe.answer(start_response, word.encode())
