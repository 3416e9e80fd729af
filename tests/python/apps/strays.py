"""Leaves a process without a parent behind, and tries to write to the disk."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    subprocess.run(["sh", "-c", "sleep 0.3 & sleep 0.3 &"], check=True)
    try:
        tempfile.TemporaryFile().close()
        disk = "open"
    except OSError:
        disk = "closed"
    body = f"parent {os.getppid()}, disk {disk}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
