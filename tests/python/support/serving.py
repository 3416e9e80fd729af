"""`lurcher serve` for a test, at a port of the kernel's choice, with its private directory below the test's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from support.process import APPS, Lurcher
from support.stage import Stage
from support.waiting import wait_for

SERVING = re.compile(r"^serving at http://127\.0\.0\.1:(\d+)$", re.MULTILINE)


def serve(
    stage: Stage,
    *options: str,
    app: str | None = "probe:application",
    app_path: Path = APPS,
    bind: str = "127.0.0.1:0",
    env: Mapping[str, str] | None = None,
) -> Lurcher:
    """The command."""
    words = ["serve", *([app] if app else []), "--app-path", str(app_path), "--bind", bind]
    own = {"TMPDIR": str(places(stage)), "XDG_RUNTIME_DIR": ""}
    return stage.lurcher(*words, *options, app=None, env={**own, **(env or {})})


def places(stage: Stage) -> Path:
    place = stage.directory / "tmp"
    place.mkdir(exist_ok=True)
    return place


def port_of(lurcher: Lurcher, seconds: float = 20.0) -> int:
    """Printed when the application is loaded."""

    def look() -> re.Match[str] | None:
        assert lurcher.is_alive(), f"it ended with {lurcher.process.poll()}:\n{lurcher.err()}"
        return SERVING.search(lurcher.out())

    found = wait_for("the address that is served", look, seconds)
    assert found is not None
    return int(found[1])
