"""Says what it is asked to, to where: `/stdout/WORD` and `/stderr/WORD`; and fails with `/raise/WORD`."""

import os
import sys
from collections.abc import Callable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    _, place, word = environ["PATH_INFO"].split("/")
    if place == "raise":
        raise RuntimeError(word)
    print(word, file=getattr(sys, place), flush=True)
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
