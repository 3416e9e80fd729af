"""The smallest application: says hello and names the process that answered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answers every request with one line of text."""
    body = f"Hello from worker {os.getpid()}, you asked for {environ['PATH_INFO']}\n".encode(
        "latin-1"
    )
    start_response(
        "200 OK",
        [("Content-Type", "text/plain; charset=latin-1"), ("Content-Length", str(len(body)))],
    )
    return [body]
