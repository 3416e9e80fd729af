"""An application that tells the id of its request."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """`/raise` fails, `/die` takes its worker along, `/sleep` takes long, `/own` sets the header itself."""
    path = environ["PATH_INFO"]
    if path == "/raise":
        raise ValueError(path)
    if path == "/die":
        os._exit(1)
    if path == "/sleep":
        time.sleep(30)
    headers = [("Content-Type", "text/plain")]
    if path == "/own":
        headers.append(("x-request-id", "mine"))
    start_response("200 OK", headers)
    told = [environ["lurcher.request_id"], environ.get("HTTP_X_REQUEST_ID", "-")]
    return [" ".join(told).encode()]
