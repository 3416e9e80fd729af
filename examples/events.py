"""Server-sent events: what a page with `new EventSource("/")` hears, for as long as it is open. Try `curl -N URL`.

A stream holds a thread of its worker while it is open: give such an application `--threads` enough for its readers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

PAUSE = 1.0


def events(client_has_left: Callable[[], bool]) -> Iterator[bytes]:
    """An event a second, numbered, until nobody listens any more."""
    number = 0
    try:
        while not client_has_left():
            number += 1
            yield f"id: {number}\ndata: {time.strftime('%H:%M:%S')}\n\n".encode()
            time.sleep(PAUSE)
    finally:
        # Here a real application gives back what it holds for this reader.
        pass


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
    """One endless response to each reader."""
    start_response("200 OK", [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")])
    # Other servers have the first name, or neither.
    left = environ.get("lurcher.client_disconnected", lambda: False)
    return events(left)
