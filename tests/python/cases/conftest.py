"""One Lurcher for each module, behind a made-up front end and a real Mongrel2.

A module says in `APP` which application it runs, and may give `OPTIONS` for the command and `ENV` for its environment.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.ways import Log, Site, Way


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    module = request.module
    site = Site(
        tmp_path_factory.mktemp("site"),
        module.APP,
        getattr(module, "OPTIONS", ()),
        getattr(module, "ENV", {}),
    )
    yield site
    site.end()


@pytest.fixture(params=["wire", "mongrel2"])
def way(request: pytest.FixtureRequest, site: Site) -> Way:
    """Both ways to the application."""
    return site.wire if request.param == "wire" else site.http


@pytest.fixture
def log(site: Site) -> Log:
    """The log of this test."""
    return Log(site)
