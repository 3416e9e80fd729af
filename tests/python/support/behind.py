"""An application behind either front end, for the suites: the real Mongrel2, or the one of `lurcher serve`.

Both take bodies of any size, larger ones and those in chunks into files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.process import APPS, Lurcher
from support.serving import port_of, serve
from support.stage import Stage

FRONT_ENDS = ("mongrel2", "serve")


@dataclass
class Behind:
    """The application, loaded and waiting for requests."""

    stage: Stage
    lurcher: Lurcher
    port: int

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end(self) -> None:
        self.stage.clear_away()


def behind(
    front_end: str,
    directory: Path,
    app: str,
    *options: str,
    app_path: Path = APPS,
    env: Mapping[str, str] | None = None,
    at: int | None = None,
) -> Behind:
    """Starts all in this directory, at a port of the kernel's choice or `at` this one."""
    stage = Stage(directory)
    if front_end == "serve":
        lurcher = serve(
            stage, *options, app=app, app_path=app_path, bind=f"127.0.0.1:{at or 0}", env=env
        )
        return Behind(stage, lurcher, port_of(lurcher, 30))
    front, words = stage.mongrel2_for_uploads(at=at)
    named = ["--wsgi-app", app, "--app-path", str(app_path)]
    lurcher = stage.lurcher(*words, *named, *options, app=None, env=env)
    lurcher.wait_for_ready(1)
    return Behind(stage, lurcher, front.port)
