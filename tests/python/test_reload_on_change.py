"""`--reload-on-change`: who saves a file has it served, and nothing is lost over it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from support.load import Load
from support.process import Lurcher
from support.rawhttp import get
from support.site import Site, version
from support.stage import Stage
from support.waiting import wait_for

BROKEN = "this is no Python"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def started(stage: Stage, site: Site, *options: str) -> tuple[int, Lurcher]:
    front = stage.mongrel2()
    options = ("--reload-on-change", *options)
    lurcher = stage.lurcher(*front.options, *site.options, *options, app=None, env=site.env)
    return front.port, lurcher


def wait_for_version(port: int, number: int) -> None:
    wait_for(f"version {number}", lambda: version(port) == number, 20)


def test_what_is_saved_is_served_and_no_request_fails(stage: Stage, site: Site) -> None:
    port, lurcher = started(stage, site, "--workers", "2")
    lurcher.wait_for_ready(2)
    assert version(port) == 1
    load = Load(port, 8).start()
    # Saved by renaming a new file, as many editors do.
    site.write(2)
    lurcher.wait_for_err("reloaded: 2 workers new", 20)
    assert version(port) == 2
    assert "site_under_test.py has changed: reloading" in lurcher.err()
    # What does not load changes nothing.
    site.write(3, extra=BROKEN)
    lurcher.wait_for_err("reload failed: the old workers stay")
    assert "SyntaxError: invalid syntax" in lurcher.err()
    assert version(port) == 2
    # Saved by writing into the file.
    code = (
        site.file.read_text()
        .replace(BROKEN, "import helpers.words")
        .replace('b"3"', "helpers.words.SAID")
    )
    helpers = site.directory / "helpers"
    helpers.mkdir()
    (helpers / "words.py").write_text("SAID = b'4'\n")
    site.file.write_text(code)
    wait_for_version(port, 4)
    # In a directory that is new; renamed, as the other worker may still load what was saved before.
    (helpers / "words.new").write_text("SAID = b'5'\n")
    (helpers / "words.new").replace(helpers / "words.py")
    wait_for_version(port, 5)
    load.wait_for_more(20)
    load.stop()
    assert not load.failures(), load.summary()


def test_what_is_no_source_is_left_alone(stage: Stage, site: Site) -> None:
    """The last one counts: by then the others would have been told."""
    for name in (".git", "node_modules", "__pycache__", "venv"):
        (site.directory / name).mkdir()
    (site.directory / "venv" / "pyvenv.cfg").touch()
    settings = stage.directory / "lurcher.toml"
    settings.write_text("workers = 1\n")
    port, lurcher = started(stage, site)
    assert version(port) == 1
    for name in (
        ".git/a.py",
        "node_modules/a.py",
        "__pycache__/a.py",
        "venv/a.py",
        "a.txt",
        ".#a.py",
    ):
        (site.directory / name).write_text("")
    settings.write_text("workers = 2\n")
    lurcher.wait_for_workers(2)
    assert lurcher.err().count(" has changed: ") == 1
    assert "lurcher.toml has changed: reloading" in lurcher.err()


@pytest.mark.parametrize("options", [[], ["--preload"]], ids=["each", "preload"])
def test_a_first_start_that_fails_waits_for_a_change(
    stage: Stage, site: Site, options: list[str]
) -> None:
    site.write(1, extra=BROKEN)
    port, lurcher = started(stage, site, "--workers", "2", *options)
    waits = "waiting for a change of the application's files"
    lurcher.wait_for_err(waits)
    site.write(2, extra="import there_is_no_such_module")
    wait_for("another wait", lambda: lurcher.err().count(waits) == 2, 20)
    site.write(3)
    lurcher.wait_for_workers(2)
    assert version(port) == 3


def test_who_waits_can_be_stopped(stage: Stage, site: Site) -> None:
    site.write(1, extra=BROKEN)
    _, lurcher = started(stage, site)
    lurcher.wait_for_err("waiting for a change")
    lurcher.send_signal(signal.SIGTERM)
    assert lurcher.wait_exit(5) == 0, lurcher.err()


def test_with_serve_nobody_connects_before_it_loads(stage: Stage, site: Site) -> None:
    site.write(1, extra=BROKEN)
    options = ["--reload-on-change", "--bind", "127.0.0.1:0"]
    _, app, *path = site.options
    lurcher = stage.lurcher("serve", app, *path, *options, app=None, env=site.env)
    lurcher.wait_for_err("waiting for a change")
    assert "serving at" not in lurcher.out()
    site.write(2)
    serving = re.compile(r"serving at http://127\.0\.0\.1:(\d+)\n")
    found = wait_for("its address", lambda: serving.search(lurcher.out()), 20)
    assert found is not None
    port = int(found[1])
    assert get(port, "/version").body == b"2"
    site.write(3)
    wait_for_version(port, 3)
    assert lurcher.stop() == 0
