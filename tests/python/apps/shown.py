"""Shows its whole environ, whatever the path is, and what its input and errors can do."""

from __future__ import annotations

import json
from typing import Any
from wsgiref.validate import validator

from afterwards import AFTER, after


def plain(value: Any) -> Any:
    return value if isinstance(value, str | int | bool) else repr(value)


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    if environ["PATH_INFO"] == AFTER:
        return after(environ, start_response)
    shown = {
        "type": type(environ).__name__,
        "types": {key: type(value).__name__ for key, value in environ.items()},
        "values": {key: plain(value) for key, value in environ.items()},
        "errors": [hasattr(environ["wsgi.errors"], x) for x in ("flush", "write", "writelines")],
        "body": environ["wsgi.input"].read(-1).decode("latin-1"),
    }
    body = json.dumps(shown).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("X-Is", "shown")])
    return [body]


validated = validator(application)
