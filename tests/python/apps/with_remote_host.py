"""The application INNER_APP (module:name), which wants the REMOTE_HOST that CGI lets a server leave out."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from typing import Any

module, _, name = os.environ["INNER_APP"].partition(":")
inner = getattr(importlib.import_module(module), name)


def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    environ.setdefault("REMOTE_HOST", environ["REMOTE_ADDR"])
    answer: Iterable[bytes] = inner(environ, start)
    return answer
