"""Loads when the file named in GATE is there. Answers with what it knows of the service manager."""

import os
import time
from collections.abc import Callable
from typing import Any

while not os.path.exists(os.environ["GATE"]):
    time.sleep(0.01)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    body = str(os.environ.get("NOTIFY_SOCKET")).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
