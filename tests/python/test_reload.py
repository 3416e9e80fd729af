"""Reload, scaling, recycling, settings read again: nothing is lost, and what does not load changes nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support.load import Load
from support.process import Lurcher
from support.rawhttp import Client, get
from support.site import Site, version
from support.stage import Stage
from support.waiting import wait_for


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def reload(lurcher: Lurcher, says: str = "reloaded: ") -> None:
    """Asks for a reload and waits until it is over."""
    before = lurcher.err().count(says)
    lurcher.send_signal(signal.SIGHUP)
    wait_for(f"{says!r} once more", lambda: lurcher.err().count(says) > before, 20)


def wait_for_count(lurcher: Lurcher, says: str, times: int) -> None:
    wait_for(says, lambda: lurcher.err().count(says) == times, 20)


def started(
    stage: Stage, site: Site, *options: str, workers: int | None = 1
) -> tuple[int, Lurcher]:
    """A port, and Lurcher with the site behind it. All workers have loaded it: it may be changed."""
    front = stage.mongrel2()
    words = [*front.options, *site.options, *options]
    # An option wins over the file.
    words += [] if workers is None else ["--workers", str(workers)]
    lurcher = stage.lurcher(*words, app=None, env=site.env)
    lurcher.wait_for_ready(workers or 1)
    assert version(front.port) == 1
    return front.port, lurcher


def test_reloads_under_load_fail_no_request(stage: Stage, site: Site) -> None:
    port, lurcher = started(stage, site, workers=2)
    first = set(lurcher.wait_for_workers(2))
    load = Load(port, 16, lambda n: f"/number/{n}?ms={n % 4}").start()
    for number in (2, 3, 4):
        load.wait_for_more(50)
        site.write(number)
        reload(lurcher)
        assert version(port) == number
    load.wait_for_more(50)
    load.stop()
    assert not load.failures(), load.summary()
    assert not first & set(lurcher.wait_for_workers(2))


def test_code_that_does_not_load_changes_nothing(stage: Stage, site: Site) -> None:
    port, lurcher = started(stage, site, workers=2)
    workers = set(lurcher.wait_for_workers(2))
    load = Load(port, 8).start()
    site.write(2, extra="this is no Python")
    reload(lurcher, "reload failed: the old workers stay")
    load.wait_for_more(50)
    load.stop()
    assert not load.failures(), load.summary()
    assert "SyntaxError: invalid syntax" in lurcher.err()
    assert version(port) == 1
    assert set(lurcher.wait_for_workers(2)) == workers
    site.write(3)
    reload(lurcher)
    assert version(port) == 3


def test_a_worker_that_never_gets_ready_fails_the_reload(stage: Stage, site: Site) -> None:
    port, lurcher = started(stage, site, "--start-timeout", "2")
    site.write(2, extra="import time; time.sleep(60)")
    reload(lurcher, "reload failed: the old workers stay")
    assert "is not ready after 2" in lurcher.err()
    assert version(port) == 1
    lurcher.wait_for_workers(1)


def test_requests_at_work_are_finished_by_their_worker(stage: Stage, site: Site) -> None:
    """But not for ever: one that is stuck may take as long as in a stop."""
    port, lurcher = started(stage, site, "--graceful-timeout", "1")
    with Client(port) as quick, Client(port) as stuck:
        stuck.send_request("GET", "/number/2?ms=60000")
        quick.send_request("GET", "/number/1?ms=500")
        wait_for("both to be at work", lambda: len(stage.record()) == 2)
        site.write(2)
        reload(lurcher)
        assert version(port) == 2
        assert quick.response().body == b"1"
        assert stuck.response().status == 502
    assert "does not come to an end; killing it" in lurcher.err()
    lurcher.wait_for_workers(1)


def test_a_second_reload_during_the_first_follows_it(stage: Stage, site: Site) -> None:
    """However often it is asked for, it is one more, with the newest code."""
    port, lurcher = started(stage, site)
    site.write(2, extra="probe.record('loading'); import time; time.sleep(1)")
    lurcher.send_signal(signal.SIGHUP)
    wait_for("the first to load", lambda: "loading" in stage.record())
    site.write(3)
    for times in (1, 2):
        lurcher.send_signal(signal.SIGHUP)
        wait_for_count(lurcher, "another one follows it", times)
    wait_for("the newest code", lambda: version(port) == 3, 20)
    assert lurcher.err().count("reloaded: ") <= 2
    lurcher.wait_for_workers(1)


def test_it_can_be_stopped_during_a_reload(stage: Stage, site: Site) -> None:
    port, lurcher = started(stage, site)
    site.write(2, extra="probe.record('loading'); import time; time.sleep(60)")
    lurcher.send_signal(signal.SIGHUP)
    wait_for("it to load", lambda: "loading" in stage.record())
    with Client(port) as client:
        client.send_request("GET", "/number/1?ms=300")
        wait_for("it to be at work", lambda: len(stage.record()) == 2)
        lurcher.send_signal(signal.SIGTERM)
        assert client.response().body == b"1"
    assert lurcher.wait_exit(5) == 0, lurcher.err()


def test_scaling_by_signal(stage: Stage, site: Site) -> None:
    port, lurcher = started(stage, site)
    load = Load(port, 8).start()
    first = lurcher.wait_for_workers(1)
    for workers in (2, 3):
        lurcher.send_signal(signal.SIGTTIN)
        lurcher.wait_for_err(f"scaling from {workers - 1} to {workers} workers")
    # The first has told its application that it is alone.
    wait_for("three others", lambda: not set(first) & set(lurcher.wait_for_workers(3)))
    load.wait_for_more(20)
    for workers in (2, 1):
        lurcher.send_signal(signal.SIGTTOU)
        lurcher.wait_for_err(f"scaling from {workers + 1} to {workers} worker")
    lurcher.send_signal(signal.SIGTTOU)
    lurcher.wait_for_err("1 worker already")
    lurcher.wait_for_workers(1)
    load.wait_for_more(20)
    load.stop()
    assert not load.failures(), load.summary()


def test_settings_are_read_again(stage: Stage, site: Site) -> None:
    file = stage.directory / "lurcher.toml"
    file.write_text("workers = 1\n")
    port, lurcher = started(stage, site, workers=None)
    file.write_text(
        'workers = 2\nlog-level = "debug"\nscript-name = "/new"\naccess-log = "a.log"\n'
    )
    reload(lurcher)
    lurcher.wait_for_workers(2)
    assert get(port, "/version").status == 404
    assert version_below(port, "/new") == 1
    assert "access-log has changed: it needs a restart, and stays as it was" in lurcher.err()
    assert not (stage.directory / "a.log").exists()
    reload(lurcher)
    assert " DEBUG " in lurcher.err()


def version_below(port: int, mount: str) -> int:
    return int(get(port, f"{mount}/version").body)


def test_settings_that_are_wrong_change_nothing(stage: Stage, site: Site) -> None:
    file = stage.directory / "lurcher.toml"
    file.write_text("workers = 1\n")
    port, lurcher = started(stage, site)
    workers = lurcher.wait_for_workers(1)
    file.write_text('workers = 0\nscript-name = "new"\nqeue-limit = 3\n')
    reload(lurcher, "reload failed: the settings are wrong; nothing has changed")
    for key in ("workers", "script-name", "qeue-limit"):
        assert f"lurcher.toml: {key}" in lurcher.err(), lurcher.err()
    assert lurcher.wait_for_workers(1) == workers
    assert version(port) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--max-requests", "60", "--max-requests-jitter", "30"], " requests: replacing it"),
        (
            ["--max-lifetime", "300ms", "--max-lifetime-jitter", "300ms"],
            "lived long enough: replacing it",
        ),
        (["--max-rss", "1M"], " MiB of memory: replacing it"),
    ],
    ids=["requests", "lifetime", "memory"],
)
def test_workers_are_recycled_without_a_failed_request(
    stage: Stage, site: Site, options: list[str], says: str
) -> None:
    """Every worker is always due, and yet they go one after the other."""
    port, lurcher = started(stage, site, *options, workers=2)
    load = Load(port, 16).start()
    most = 0

    def look() -> bool:
        nonlocal most
        most = max(most, len(lurcher.worker_pids()))
        return lurcher.err().count(says) >= 6

    wait_for("six recycled workers", look, 40)
    load.wait_for_more(20)
    load.stop()
    assert not load.failures(), load.summary()
    assert most <= 3
