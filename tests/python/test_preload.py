"""`--preload`: one process loads the application and forks the workers; and what workers call at their two ends."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.load import Load
from support.process import Lurcher
from support.rawhttp import get
from support.site import Site, version
from support.stage import Stage
from support.waiting import wait_for

LOADED = "import os; probe.record(f'loaded {os.getpid()}')"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.write(1, extra=LOADED)
    return site


def started(stage: Stage, site: Site, *options: str, workers: int = 2) -> tuple[int, Lurcher]:
    front = stage.mongrel2()
    words = [*front.options, *site.options, "--workers", str(workers), "--preload", *options]
    lurcher = stage.lurcher(*words, app=None, env=site.env)
    lurcher.wait_for_ready(workers)
    return front.port, lurcher


def wait_for_reloads(lurcher: Lurcher, times: int) -> None:
    wait_for("the reload", lambda: lurcher.err().count("reloaded: ") == times, 20)


def loaders(stage: Stage) -> list[int]:
    return [int(line.split()[1]) for line in stage.record() if line.startswith("loaded ")]


def answering(port: int, count: int) -> set[tuple[int, int]]:
    """Pid and parent of each worker."""
    found: set[tuple[int, int]] = set()

    def look() -> bool:
        with ThreadPoolExecutor(4 * count) as pool:
            for shown in pool.map(lambda _: get(port, "/who?ms=50").json(), range(4 * count)):
                found.add((shown["pid"], shown["ppid"]))
        return len(found) >= count

    wait_for(f"{count} workers to answer", look, 20)
    return found


def test_the_application_is_loaded_once(stage: Stage, site: Site) -> None:
    """And the workers are the instance's own children, with random numbers of their own."""
    port, lurcher = started(stage, site, workers=3)
    workers = answering(port, 3)
    assert {parent for _, parent in workers} == {lurcher.pid}
    (template,) = loaders(stage)
    assert template not in {pid for pid, _ in workers}
    # One that dies is forked anew.
    victim = min(workers)[0]
    os.kill(victim, signal.SIGKILL)
    lurcher.wait_for_ready(4)
    assert "killed by signal 9" in lurcher.err()
    wait_for("the victim to be gone", lambda: victim not in lurcher.processes())
    assert loaders(stage) == [template]


def test_reloads_with_a_new_template(stage: Stage, site: Site) -> None:
    port, lurcher = started(stage, site, "--max-requests", "200")
    load = Load(port, 16).start()
    for number in (2, 3):
        site.write(number, extra=LOADED)
        lurcher.send_signal(signal.SIGHUP)
        wait_for_reloads(lurcher, number - 1)
        assert version(port) == number
    site.write(4, extra="this is no Python")
    lurcher.send_signal(signal.SIGHUP)
    lurcher.wait_for_err("reload failed: the old workers stay")
    assert "SyntaxError: invalid syntax" in lurcher.err()
    assert version(port) == 3
    load.wait_for_more(500)
    load.stop()
    assert not load.failures(), load.summary()
    assert len(loaders(stage)) == 3


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (
            "import threading; threading.Thread(target=threading.Event().wait, name='tick', daemon=True).start()",
            "has started threads 'tick' while it was loaded",
        ),
        (
            "import _thread, time; _thread.start_new_thread(time.sleep, (60,))",
            "threads that Python does not know",
        ),
    ],
    ids=["thread", "foreign"],
)
def test_threads_are_refused(stage: Stage, site: Site, extra: str, says: str) -> None:
    site.write(1, extra=extra)
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, *site.options, "--preload", app=None, env=site.env)
    assert lurcher.wait_exit() == 4
    assert "cannot preload: the application has started threads" in lurcher.err()
    assert says in lurcher.err()


def test_a_template_that_dies_costs_nothing(stage: Stage, site: Site) -> None:
    port, lurcher = started(stage, site)
    (template,) = loaders(stage)
    load = Load(port, 8).start()
    os.kill(template, signal.SIGKILL)
    lurcher.wait_for_err(f"the template (pid {template}) has died; its workers go on")
    load.wait_for_more(50)
    load.stop()
    assert not load.failures(), load.summary()
    assert loaders(stage) == [template]
    # Whoever needs one next gets a new one.
    os.kill(min(answering(port, 2))[0], signal.SIGKILL)
    lurcher.wait_for_ready(3)
    assert len(loaders(stage)) == 2


def test_nothing_is_left_of_a_killed_instance_and_another_one_serves(
    stage: Stage, site: Site
) -> None:
    port, lurcher = started(stage, site)
    assert version(port) == 1
    os.kill(lurcher.pid, signal.SIGKILL)
    lurcher.wait_exit()
    lurcher.assert_no_orphans(2)
    again = stage.lurcher(*stage.fronts[0].options, *site.options, app=None, env=site.env)
    again.wait_for_ready(1)
    assert version(port) == 1


HOOKS = """
def begin(): probe.record(f"begin {__import__('os').getpid()}")
def end(): probe.record(f"end {__import__('os').getpid()}")
def fail(): raise RuntimeError("no pool")
"""


@pytest.mark.parametrize("preload", [False, True])
def test_workers_call_when_they_begin_and_end(stage: Stage, site: Site, preload: bool) -> None:
    site.write(1, extra=HOOKS)
    front = stage.mongrel2()
    hooks = [
        "--on-worker-start",
        "site_under_test:begin",
        "--on-worker-stop",
        "site_under_test.end",
    ]
    words = [*front.options, *site.options, *hooks, "--workers", "2"]
    lurcher = stage.lurcher(*words, *(["--preload"] if preload else []), app=None, env=site.env)
    lurcher.wait_for_ready(2)
    pids = {str(pid) for pid, _ in answering(front.port, 2)}
    assert sorted(stage.record()) == sorted(f"begin {pid}" for pid in pids)
    assert lurcher.stop() == 0
    assert {line for line in stage.record() if "end " in line} == {f"end {pid}" for pid in pids}


@pytest.mark.parametrize("preload", [False, True])
def test_a_worker_that_cannot_begin_has_not_loaded(stage: Stage, site: Site, preload: bool) -> None:
    site.write(1, extra=HOOKS)
    front = stage.mongrel2()
    words = [*front.options, *site.options, "--on-worker-start", "site_under_test:fail"]
    lurcher = stage.lurcher(*words, *(["--preload"] if preload else []), app=None, env=site.env)
    assert lurcher.wait_exit() == 4
    assert "site_under_test:fail, to be called when a worker starts, failed" in lurcher.err()
    assert "RuntimeError: no pool" in lurcher.err()


def test_what_fails_at_the_end_is_logged(stage: Stage, site: Site) -> None:
    site.write(1, extra=HOOKS)
    front = stage.mongrel2()
    words = [*front.options, *site.options, "--on-worker-stop", "site_under_test:fail"]
    lurcher = stage.lurcher(*words, app=None, env=site.env)
    lurcher.wait_for_ready(1)
    assert lurcher.stop() == 0
    assert "site_under_test:fail failed" in lurcher.err()
    assert "RuntimeError: no pool" in lurcher.err()
