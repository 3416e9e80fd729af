"""Waiting with a deadline: the one place where a test sleeps between two looks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

BETWEEN_LOOKS = 0.01


def wait_for(what: str, look: Callable[[], T], seconds: float = 10.0) -> T:
    """The first true value that `look` gives; fails, saying what was awaited, after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(BETWEEN_LOOKS)
