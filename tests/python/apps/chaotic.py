"""The application of the chaos run: a path is `/KIND/NUMBER`, and a number is recorded each time that it is run."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import Any

import probe


def crash(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """As a C extension with a fault."""
    ctypes.string_at(0)
    return []


KINDS = {**probe.ROUTES, "segv": crash}


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    kind, _, number = environ["PATH_INFO"].lstrip("/").partition("/")
    if kind != "number":
        # That one records itself.
        probe.record(f"begun {number} {os.getpid()}")
    return KINDS[kind](environ, start_response)
