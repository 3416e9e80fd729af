"""Tells what a request was, as JSON: what of the environ stands for the client's bytes, and the body as latin-1."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

NAMES = (
    "REQUEST_METHOD",
    "PATH_INFO",
    "QUERY_STRING",
    "SERVER_PROTOCOL",
    "CONTENT_TYPE",
    "wsgi.url_scheme",
)


def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    told = {
        name: value
        for name, value in environ.items()
        if name in NAMES or name == "CONTENT_LENGTH" or name.startswith("HTTP_")
    }
    told["body"] = environ["wsgi.input"].read().decode("latin-1")
    body = json.dumps(told).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
