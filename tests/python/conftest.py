"""Fixtures. What a test sets up, it sets up on its stage, which is cleared (and checked) after it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.behind import FRONT_ENDS
from support.front import PROTOCOLS
from support.process import COMMAND
from support.stage import Stage

TOOLS = ("mongrel2", "m2sh", "wrk", "ab", "curl", "systemd-analyze", "nginx", "haproxy", "apache2")


def pytest_sessionstart(session: pytest.Session) -> None:
    """A missing tool is a failure, never a skip."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.exit(f"missing: {', '.join(missing)}; run scripts/install-missing run test", 1)
    if not COMMAND.exists():
        pytest.exit(f"{COMMAND} is missing: run make dev", 1)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    """Both encodings of the request headers."""
    return str(request.param)


@pytest.fixture(scope="session", params=FRONT_ENDS)
def front_end(request: pytest.FixtureRequest) -> str:
    """What a suite asks through; see `support.behind`."""
    return str(request.param)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage for one test."""
    stage = Stage(tmp_path)
    yield stage
    stage.clear_away()
