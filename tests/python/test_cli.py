"""The command line: what is refused, how it is said, and with which exit code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support.process import Lurcher
from support.rawhttp import get
from support.stage import Stage
from support.waiting import wait_for

OURS = re.compile(r'File ".*lurcher.*\.py"|thread .* panicked|File "<frozen importlib')


def assert_refused(lurcher: Lurcher, code: int) -> str:
    """It ends soon with that code, leaves nothing behind, and shows no traceback of its own."""
    assert lurcher.wait_exit(15) == code, lurcher.err()
    lurcher.assert_no_orphans()
    said = lurcher.err()
    assert said.strip()
    assert not OURS.search(said), said
    return said


def test_help_and_version(stage: Stage) -> None:
    for command in ([], [sys.executable, "-m", "lurcher"]):
        started = [
            Lurcher(stage.directory, [option], command=command)
            if command
            else stage.lurcher(option, app=None)
            for option in ("--help", "--version")
        ]
        for lurcher in started:
            assert lurcher.wait_exit() == 0, lurcher.err()
        usage, version = started
        for option in ("--recv", "--send", "--wsgi-app", "--workers", "--keep-alive", "--threads"):
            assert option in usage.out()
        assert re.fullmatch(r"lurcher \d+\.\d+\.\d+\S*\n", version.out())
        assert usage.err() == version.err() == ""


def test_all_faults_at_once(stage: Stage) -> None:
    lurcher = stage.lurcher(
        *("--recv", "nonsense", "--send", "tcp://127.0.0.1:99999"),
        *("--workers", "0", "--threads", "many"),
        app=None,
    )
    said = assert_refused(lurcher, 64)
    for word in ("nonsense", "99999", "--workers", "--threads", "--wsgi-app"):
        assert word in said, said
    assert lurcher.out() == ""


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--no-such-option"], "--no-such-option"),
        (["--recv", "tcp://127.0.0.1:5000"], "--send"),
        (["--send", "tcp://127.0.0.1:5000"], "--recv"),
        ([], "--recv"),
    ],
)
def test_bad_options(stage: Stage, options: list[str], word: str) -> None:
    assert word in assert_refused(stage.lurcher(*options), 64)


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("no_such_module:application", ["no_such_module"]),
        ("no.such.module.application", ["no.such.module"]),
        ("probe:no_such_callable", ["no_such_callable", "probe"]),
        ("probe:nothing", ["nothing", "callable"]),
        ("no_such_file.wsgi", ["no_such_file.wsgi"]),
    ],
)
def test_an_application_that_is_not_there(stage: Stage, app: str, words: list[str]) -> None:
    """One clear message, exit code 4, although the workers would be started again."""
    front = stage.mongrel2()
    said = assert_refused(stage.lurcher(*front.options, "--workers", "3", app=app), 4)
    for word in words:
        assert word in said, said
    assert "Traceback" not in said, said
    assert said.count("cannot load") == 1, said


def test_an_application_that_raises_at_import(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, "--workers", "2", app="raises_at_import:application")
    said = assert_refused(lurcher, 4)
    assert said.count("Traceback (most recent call last)") == 1, said
    assert "RuntimeError: no database here" in said
    assert "raises_at_import.py" in said


@pytest.mark.parametrize(
    "app",
    [
        "probe:application",
        "probe.application",
        "probe:make_application()",
        str(Path(__file__).parent / "apps" / "probe.py"),
    ],
)
def test_ways_to_name_the_application(stage: Stage, app: str) -> None:
    front = stage.mongrel2()
    stage.lurcher(*front.options, app=app)
    assert get(front.port, "/number/1").body == b"1"


def test_settings_from_the_environment_and_a_file(stage: Stage) -> None:
    front = stage.mongrel2()
    file = stage.directory / "lurcher.toml"
    file.write_text("threads = 2\nworkers = 2\n", encoding="utf-8")
    lurcher = stage.lurcher(
        *front.options, "--config", str(file), env={"LURCHER_SCRIPT_NAME": "/app"}
    )
    lurcher.wait_for_workers(2)
    assert get(front.port, "/app/number/1").body == b"1"
    assert get(front.port, "/number/1").status == 404


def test_script_name_ends_at_a_segment(stage: Stage, protocol: str) -> None:
    front = stage.mongrel2(protocol)
    stage.lurcher(*front.options, "--script-name", "/app")
    assert get(front.port, "/app/x%20y").body == repr([b"/app", b"/x y", b""]).encode()
    assert get(front.port, "/app?q").body == repr([b"/app", b"", b"q"]).encode()
    for other in ("/application", "/", "/ap", "/x/app/y"):
        assert get(front.port, other).status == 404


def test_server_name(stage: Stage) -> None:
    front = stage.mongrel2()
    stage.lurcher(*front.options, "--server-name", "shop.example")
    shown = get(front.port, "/environ").json()
    assert shown["SERVER_NAME"] == ["str", "shop.example"]


def test_environment_variables_are_no_headers(stage: Stage) -> None:
    front = stage.mongrel2()
    stage.lurcher(*front.options, env={"REMOTE_USER": "root", "HTTP_X_A": "from the system"})
    shown = get(front.port, "/environ").json()
    assert "REMOTE_USER" not in shown
    assert "HTTP_X_A" not in shown


def test_print_config(stage: Stage) -> None:
    lurcher = stage.lurcher(
        *("--recv", "tcp://127.0.0.1:5000", "--send", "tcp://127.0.0.1:5001", "--print-config"),
        env={"LURCHER_THREADS": "7"},
    )
    assert lurcher.wait_exit() == 0, lurcher.err()
    shown = lurcher.out()
    assert re.search(r"threads.*7.*LURCHER_THREADS", shown), shown
    assert re.search(r"queue.limit.*1024.*default", shown), shown


def test_wsgids_command_line_runs_as_it_is(stage: Stage) -> None:
    """The one from the README, with wsgid's flags that mean what is done anyway."""
    front = stage.mongrel2()
    lurcher = stage.lurcher(
        *front.options, "--keep-alive", "--workers", "2", "--no-daemon", "--stdout"
    )
    assert get(front.port, "/number/1").body == b"1"
    lurcher.wait_for_workers(2)


def test_a_log_file_that_cannot_be_written_is_said_at_once(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, "--access-log", "/no/such/directory/access.log")
    wait_for("it to end", lambda: not lurcher.is_alive())
    assert lurcher.wait_exit() in (1, 64)
    assert "/no/such/directory/access.log" in lurcher.err()
    assert "panicked" not in lurcher.err()
