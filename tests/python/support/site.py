"""An application whose code a test changes: the probe application, and /version."""

from __future__ import annotations

from pathlib import Path

from support.process import APPS
from support.rawhttp import get

CODE = """\
import sys
sys.path.append({apps!r})
import probe
{extra}
def application(environ, start_response):
    if environ["PATH_INFO"] == "/version":
        return probe.answer(start_response, b"{version}")
    return probe.application(environ, start_response)
"""


class Site:
    """A folder with the module `site_under_test`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "code"
        self.directory.mkdir()
        self.file = self.directory / "site_under_test.py"
        self.write(1)

    @property
    def options(self) -> list[str]:
        return ["--wsgi-app", "site_under_test:application", "--app-path", str(self.directory)]

    @property
    def env(self) -> dict[str, str]:
        """Compiled code is told from its source by seconds and size, which is too coarse for a test."""
        return {"PYTHONDONTWRITEBYTECODE": "1"}

    def write(self, version: int, extra: str = "") -> None:
        """New code, at once and as a whole."""
        new = self.file.with_suffix(".new")
        new.write_text(CODE.format(apps=str(APPS), version=version, extra=extra))
        new.rename(self.file)


def version(port: int) -> int:
    """Which code answers."""
    response = get(port, "/version")
    assert response.status == 200, response
    return int(response.body)
