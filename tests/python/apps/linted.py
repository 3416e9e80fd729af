"""Other applications inside two checkers: the first word of the path chooses the checker, the second the application.

The checkers stand directly behind the server, so that they see what it does.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from wsgiref.validate import validator

from afterwards import AFTER, after
from werkzeug.middleware.lint import LintMiddleware

Application = Callable[..., Any]

sys.path.append(str(Path(__file__).resolve().parents[3] / "examples"))
MADE: dict[tuple[str, str], Application] = {}


def checked(checker: str, name: str) -> Application:
    if (checker, name) not in MADE:
        application = importlib.import_module(name).application
        checkers: dict[str, Any] = {"validator": validator, "werkzeug": LintMiddleware}
        MADE[checker, name] = checkers[checker](application)
    return MADE[checker, name]


def application(environ: dict[str, Any], start_response: Any) -> Any:
    if environ["PATH_INFO"] == AFTER:
        return after(environ, start_response)
    _, checker, name, rest = environ["PATH_INFO"].split("/", 3)
    environ["SCRIPT_NAME"] += f"/{checker}/{name}"
    environ["PATH_INFO"] = f"/{rest}"
    return checked(checker, name)(environ, start_response)
