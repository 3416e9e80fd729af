"""A stream: one line at a time, each sent as soon as it is made. Try `curl -N URL/?ticks=5`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs

MOST_TICKS = 100


def ticks(count: int) -> Iterator[bytes]:
    """One line at once, and one more each second."""
    for number in range(count):
        if number:
            time.sleep(1)
        yield f"{number + 1} of {count}: {time.strftime('%H:%M:%S')}\n".encode()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
    """Streams `ticks` lines (3 unless the query says otherwise) without knowing the length before."""
    asked = parse_qs(environ["QUERY_STRING"]).get("ticks", ["3"])[0]
    count = min(int(asked), MOST_TICKS) if asked.isdecimal() else 3
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return ticks(count)
