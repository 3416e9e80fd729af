"""What an application says to the second request on a connection, which shows whether the first left it in step."""

from __future__ import annotations

from typing import Any

AFTER = "/after"


def after(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"and after it"]
