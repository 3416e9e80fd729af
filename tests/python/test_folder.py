"""wsgid's application folder: started as it is, and turned into a lurcher.toml."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import wire
from support.fake import FakeFrontEnd
from support.opened import opened
from support.process import APPS, COMMAND, Lurcher
from support.stage import Stage

NOBODY = 65534


def wsgid_folder(stage: Stage, **settings: object) -> tuple[Path, FakeFrontEnd]:
    """As wsgid's `init` and `config` have made it; the application stands in `app`."""
    folder = stage.directory / "site"
    for part in ("app", "logs", "pid/master", "pid/worker", "plugins"):
        (folder / part).mkdir(parents=True)
    (folder / "app" / "shown.py").write_text((APPS / "process.py").read_text())
    (folder / "logs" / "wsgid.log").write_text("2013-04-01 10:00:00,000 - wsgid - INFO - old\n")
    fake = stage.fake()
    recv, send = fake.options[1], fake.options[3]
    written = {"recv": recv, "send": send, "wsgi_app": "shown.application", "debug": "False"}
    (folder / "wsgid.json").write_text(json.dumps({**written, **settings}, indent=2))
    return folder, fake


def start(
    stage: Stage, folder: Path, *options: str, command: Sequence[str] = (str(COMMAND),)
) -> Lurcher:
    words = ("start", "--app-path", str(folder), *options)
    return stage.lurcher(*words, app=None, command=command)


def ask(fake: FakeFrontEnd) -> dict[str, object]:
    fake.send(wire.request(fake.ident, 1, "/", "GET", None, b"", protocol="json"))
    data, _ = fake.collect(1, 20.0)
    shown: dict[str, object] = json.loads(data.partition(b"\r\n\r\n")[2])
    return shown


def run(*words: str, runtime: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command; `runtime` is where instances of a stage have their control sockets."""
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=20, env=env)


@pytest.mark.timeout(60)
def test_a_folder_of_wsgids_starts_as_it_is(stage: Stage) -> None:
    """A daemon, with its pid below `pid/master`, its log where wsgid had it, its environment set."""
    envs = {"HOME": "/somewhere/else"}
    folder, fake = wsgid_folder(stage, workers="2", keep_alive="True", envs=envs)
    starter = start(stage, folder)
    assert starter.wait_exit() == 0, starter.err()
    (pid_file,) = (folder / "pid" / "master").iterdir()
    pid = int(pid_file.read_text())
    assert len(starter.worker_pids()) in (1, 2)
    names = ask(fake)["names"]
    assert isinstance(names, dict)
    assert names["HOME"] == "/somewhere/else"
    log = (folder / "logs" / "wsgid.log").read_text()
    assert log.startswith("2013-04-01")
    assert f"lurcher[{pid}]" in log
    assert "wsgid.json" not in log, "it was read, so there is nothing to tell of it"
    second = start(stage, folder)
    assert second.wait_exit() == 1
    assert f"its lurcher still runs (pid {pid})" in second.err()
    status = run("status", "--app-path", str(folder), runtime=stage.directory)
    assert (status.returncode, f"{pid}" in status.stdout) == (0, True), status
    restarted = run("restart", "--app-path", str(folder), runtime=stage.directory)
    assert restarted.returncode == 0, restarted
    stopped = run("stop", "--app-path", str(folder), runtime=stage.directory)
    assert stopped.returncode == 0, stopped
    starter.assert_no_orphans()
    assert not pid_file.exists()
    for command in ("status", "stop"):
        nobody = run(command, "--app-path", str(folder))
        assert nobody.returncode == 3
        assert nobody.stderr == f"lurcher: no instance runs in {folder}\n"


@pytest.mark.timeout(60)
def test_root_becomes_the_owner_of_the_folder(stage: Stage) -> None:
    """As wsgid did, whatever the folder's files say."""
    # A path, as that user cannot look into the directory of a test.
    settings = {"no_daemon": "True", "stdout": "True", "wsgi_app": str(APPS / "process.py")}
    folder, fake = wsgid_folder(stage, **settings)
    if os.geteuid() != 0:
        return
    os.chown(folder, NOBODY, NOBODY)
    lurcher = start(stage, folder, command=opened(stage.directory))
    shown = ask(fake)
    assert shown["uid"] == [NOBODY, NOBODY]
    assert shown["gid"] == [NOBODY, NOBODY]
    assert lurcher.is_alive(), "no_daemon"
    assert "is ready after" in lurcher.err(), "stdout"


@pytest.mark.timeout(60)
def test_the_command_line_wins_and_says_so(stage: Stage) -> None:
    folder, fake = wsgid_folder(stage, workers="7")
    lurcher = start(stage, folder, "--workers", "1", "--no-daemon")
    assert ask(fake)["directory"]
    log = (folder / "logs" / "wsgid.log").read_text()
    assert "--workers wins over workers of " in log
    assert "1 worker of 4 threads" in log
    assert lurcher.stop() == 0


def test_what_cannot_be_done_is_said_before_anything_starts(stage: Stage, tmp_path: Path) -> None:
    folder, _ = wsgid_folder(stage, chroot="True")
    refused = run("start", "--app-path", str(folder))
    assert refused.returncode == 64
    assert "wsgid.json: chroot: not supported" in refused.stderr
    (folder / "wsgid.json").write_text("")
    refused = run("start", "--app-path", str(folder))
    assert refused.returncode == 64
    assert "wsgid.json: no JSON" in refused.stderr
    bare = tmp_path / "bare"
    bare.mkdir()
    refused = run("start", "--app-path", str(bare))
    assert refused.returncode == 64
    assert f"has no pid/master and logs; `lurcher init --app-path {bare}`" in refused.stderr


@pytest.mark.timeout(60)
def test_a_folder_is_migrated_and_started(stage: Stage) -> None:
    folder, fake = wsgid_folder(
        stage, workers="2", debug="True", chroot="True", envs={"A": "b"}, keep_alive="False"
    )
    (folder / "django.json").write_text("{}")
    done = run("migrate", str(folder))
    assert done.returncode == 0, done.stderr
    report = done.stdout
    assert "kept: workers = 2" in report
    assert 'changed: debug is now log-level = "debug"' in report
    assert 'envs: set A="b" in the environment that starts lurcher' in report
    for name in ("chroot", "django.json", "plugins"):
        assert f"dropped: {name}" in report
    head, *lines = (folder / "lurcher.toml").read_text().splitlines()
    assert head.startswith("#")
    assert sorted(lines[: lines.index("")]) == [
        f'app-path = "{folder}"',
        "keep-alive = false",
        'log-level = "debug"',
        "workers = 2",
        'wsgi-app = "shown.application"',
    ]
    link = [f'recv = "{fake.options[1]}"', f'send = "{fake.options[3]}"']
    assert lines[lines.index("") + 1 :] == ["[[link]]", *link]
    again = run("migrate", str(folder))
    assert again.returncode == 1
    assert "File exists" in again.stderr
    lurcher = start(stage, folder, "--no-daemon", "--workers", "1")
    assert ask(fake)["directory"]
    assert lurcher.stop() == 0


@pytest.mark.timeout(60)
def test_a_new_folder_is_made_and_started(stage: Stage, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    for _ in range(2):
        made = run("init", "--app-path", str(folder))
        assert made.returncode == 0, made.stderr
    (folder / "app" / "shown.py").write_text((APPS / "process.py").read_text())
    fake = stage.fake()
    (folder / "lurcher.toml").write_text(
        'wsgi-app = "shown:application"\n'
        f'[[link]]\nrecv = "{fake.options[1]}"\nsend = "{fake.options[3]}"\n'
    )
    starter = start(stage, folder)
    assert starter.wait_exit() == 0, starter.err()
    assert ask(fake)["directory"]
    pid = int((folder / "pid" / "master" / "lurcher.pid").read_text())
    assert f"lurcher[{pid}]" in (folder / "logs" / "lurcher.log").read_text()
    os.kill(pid, signal.SIGTERM)
    starter.assert_no_orphans()
