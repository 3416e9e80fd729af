"""The instance as a process of its system: pid file, user, umask, working directory."""

from __future__ import annotations

import json
import os
import pwd
import signal
from pathlib import Path

import pytest
from support import wire
from support.opened import opened
from support.process import APPS, COMMAND, Lurcher, command_line
from support.served import Served
from support.stage import Stage
from support.waiting import wait_for

NOBODY = pwd.getpwnam("nobody")


def become(stage: Stage, *options: str) -> Served | None:
    """One that is to become another user; nothing where that was rightly refused because this is not root."""
    if os.geteuid() == 0:
        command = opened(stage.directory)
        return Served(stage, "process:application", options, command=command)
    lurcher = stage.lurcher(*stage.fake().options, *options)
    assert lurcher.wait_exit() == 64
    assert "only root can become another user or group" in lurcher.err()
    return None


@pytest.mark.timeout(60)
def test_a_pid_file_lives_as_long_as_its_instance(stage: Stage, tmp_path: Path) -> None:
    """A second instance is refused; what a killed one leaves behind is taken over, with its number."""
    path = tmp_path / "lurcher.pid"
    first = Served(stage, "process:application", ["--pid-file", str(path)])
    assert first.ask("/").status == 200
    assert path.read_text() == f"{first.lurcher.pid}\n"
    second = stage.lurcher(*stage.fake().options, "--pid-file", str(path))
    assert second.wait_exit() == 1
    assert f"its lurcher still runs (pid {first.lurcher.pid})" in second.err()
    assert path.read_text() == f"{first.lurcher.pid}\n", "untouched"

    first.lurcher.send_signal(signal.SIGKILL)
    first.lurcher.wait_exit()
    assert path.read_text() == f"{first.lurcher.pid}\n"
    third = Served(stage, "process:application", ["--pid-file", str(path)])
    assert third.ask("/").status == 200
    assert f"was left behind by pid {first.lurcher.pid}; taken over" in third.lurcher.err()
    assert path.read_text() == f"{third.lurcher.pid}\n"
    assert third.lurcher.stop() == 0
    assert not path.exists()


def test_a_file_that_is_no_pid_file_stays_as_it_is(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("not a number\n")
    lurcher = stage.lurcher(*stage.fake().options, "--pid-file", str(path))
    assert lurcher.wait_exit() == 1
    assert "is no pid file" in lurcher.err()
    assert path.read_text() == "not a number\n"


@pytest.mark.timeout(60)
def test_an_instance_that_does_not_come_up_leaves_no_pid_file(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "lurcher.pid"
    options = [*stage.fake().options, "--pid-file", str(path)]
    lurcher = stage.lurcher(*options, app="raises_at_import:application")
    assert lurcher.wait_exit() == 4
    assert not path.exists()


def test_umask_and_working_directory(stage: Stage, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    served = Served(stage, "process:application", ["--umask", "027", "--chdir", str(place)])
    shown = served.ask("/").json()
    assert shown["mode"] == "0o640"
    assert shown["directory"] == str(place)


@pytest.mark.parametrize("group", [None, "daemon"])
def test_root_becomes_another_user_for_good(
    stage: Stage, tmp_path: Path, group: str | None
) -> None:
    """The instance and its workers; what only root can open is open before, and goes with the instance."""
    pid_file = tmp_path / "lurcher.pid"
    access_log = tmp_path / "access.log"
    # Its directory is closed to that user, so a reload must not look for a file there.
    options = ["--config", "/dev/null", "--user", "nobody"]
    options += ["--pid-file", str(pid_file), "--access-log", str(access_log)]
    if group is not None:
        options += ["--group", group]
    served = become(stage, *options)
    if served is None:
        return
    shown = served.ask("/").json()
    gid = NOBODY.pw_gid if group is None else 1
    assert shown["uid"] == [NOBODY.pw_uid] * 2
    assert shown["gid"] == [gid] * 2
    assert 0 not in shown["groups"]
    assert shown["names"] == {"HOME": NOBODY.pw_dir, "USER": "nobody", "LOGNAME": "nobody"}
    served.lurcher.send_signal(signal.SIGHUP)
    served.lurcher.wait_for_err("reloaded: 1 worker new")
    assert served.ask("/").json() == shown, "the same after a reload"
    instance = Path(f"/proc/{served.lurcher.pid}/status").read_text().split("\n")
    (uids,) = (line.split()[1:] for line in instance if line.startswith("Uid:"))
    (groups,) = (line.split()[1:] for line in instance if line.startswith("Groups:"))
    assert uids == [str(NOBODY.pw_uid)] * 4
    assert "0" not in groups
    assert served.lurcher.stop() == 0
    # It lies where the user may not remove it; then it names nobody.
    assert not pid_file.exists() or pid_file.read_text() == ""
    assert access_log.read_text().count("GET / ") == 2


def test_a_number_needs_no_entry(stage: Stage) -> None:
    served = become(stage, "--user", "54321", "--group", "54322")
    if served is None:
        return
    shown = served.ask("/").json()
    assert (shown["uid"], shown["gid"]) == ([54321] * 2, [54322] * 2)
    assert shown["groups"] == [54322]


def test_faults_are_told_before_anything_is_opened(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "lurcher.pid"
    lurcher = stage.lurcher(
        *stage.fake().options,
        *("--pid-file", str(path), "--user", "nobody-of-this-name", "--group", "nor-this"),
        *("--umask", "rwx", "--chdir", str(tmp_path / "nowhere")),
    )
    assert lurcher.wait_exit() == 64
    said = lurcher.err().splitlines()
    assert 'lurcher: --user: there is no user "nobody-of-this-name"' in said
    assert 'lurcher: --group: there is no group "nor-this"' in said
    assert 'lurcher: --umask: "rwx" is no umask in octal from 000 to 777, as 022' in said
    assert len(said) == 4, said
    assert not path.exists()


def test_a_signal_that_means_something_to_others_only(stage: Stage) -> None:
    served = Served(stage, "process:application")
    assert served.ask("/").status == 200
    served.lurcher.send_signal(signal.SIGUSR2)
    assert served.ask("/").status == 200
    assert served.lurcher.stop() == 0


# ---- In the background


class Background:
    """A daemon that was started on a stage, found by its mark."""

    def __init__(self, stage: Stage, *options: str, app: str = "process:application") -> None:
        self.fake = stage.fake()
        self.log = stage.directory / "daemon.log"
        words = [*self.fake.options, "--daemon", "--log-file", str(self.log), *options]
        self.starter = stage.lurcher(*words, app=app)

    def instance(self) -> int:
        """The process that is neither the starter nor a worker."""
        others = {self.starter.pid, *self.starter.worker_pids()}
        (pid,) = set(self.starter.processes()) - others
        return pid

    def ask(self) -> dict[str, object]:
        self.fake.send(wire.request(self.fake.ident, 1, "/", "GET", None, b"", protocol="json"))
        data, _ = self.fake.collect(1, 20.0)
        shown: dict[str, object] = json.loads(data.partition(b"\r\n\r\n")[2])
        return shown


def fields(pid: int) -> tuple[int, int, int]:
    """Parent, session and controlling terminal of a process."""
    after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(after[1]), int(after[3]), int(after[4])


@pytest.mark.timeout(60)
def test_a_daemon_serves_when_its_starter_ends(stage: Stage, tmp_path: Path) -> None:
    pid_file = tmp_path / "lurcher.pid"
    daemon = Background(stage, "--pid-file", str(pid_file))
    assert daemon.starter.wait_exit() == 0
    pid = daemon.instance()
    assert pid_file.read_text() == f"{pid}\n"
    assert f"serving (pid {pid}); its log is {daemon.log}" in daemon.starter.out()
    assert daemon.starter.err() == ""
    assert "is ready after" in daemon.log.read_text()
    parent, session, terminal = fields(pid)
    assert session not in (pid, os.getsid(0)), "it can never get a terminal"
    assert terminal == 0
    assert parent != daemon.starter.pid
    for number, place in enumerate(["/dev/null", str(daemon.log), str(daemon.log)]):
        assert os.readlink(f"/proc/{pid}/fd/{number}") == place
    assert daemon.ask()["directory"] == str(tmp_path), "where it was started"
    os.kill(pid, signal.SIGTERM)
    daemon.starter.assert_no_orphans()
    assert not pid_file.exists()
    assert "ended after" in daemon.log.read_text()


@pytest.mark.timeout(60)
def test_a_daemon_that_does_not_come_up_says_why_where_it_was_started(
    stage: Stage, tmp_path: Path
) -> None:
    """With its exit code, and only with what is new in the log."""
    (tmp_path / "daemon.log").write_text("what was there before\n")
    daemon = Background(stage, app="raises_at_import:application")
    assert daemon.starter.wait_exit() == 4
    said = daemon.starter.err()
    assert "RuntimeError: no database here" in said
    assert f"did not come up (exit code 4); its log is {daemon.log}" in said
    assert "what was there before" not in said
    assert said.replace("lurcher: did not", "").splitlines()[0] in daemon.log.read_text()
    daemon.starter.assert_no_orphans()


@pytest.mark.timeout(60)
def test_a_starter_that_is_interrupted_takes_its_daemon_along(stage: Stage) -> None:
    daemon = Background(stage, app="never_loads:application")
    daemon.starter.wait_for_workers(1)
    wait_for("the log", lambda: "1 link" in daemon.log.read_text())
    daemon.starter.send_signal(signal.SIGINT)
    assert daemon.starter.wait_exit() == 1
    assert "did not come up (exit code 0)" in daemon.starter.err()
    daemon.starter.assert_no_orphans()


def test_a_daemon_without_a_log_is_refused(stage: Stage) -> None:
    lurcher = stage.lurcher(*stage.fake().options, "--daemon")
    assert lurcher.wait_exit() == 64
    assert "--daemon: a daemon needs --log-file" in lurcher.err()


def test_a_log_file_has_what_would_be_on_standard_error(stage: Stage, tmp_path: Path) -> None:
    log = tmp_path / "lurcher.log"
    served = Served(stage, "process:application", ["--log-file", str(log), "--umask", "022"])
    wait_for("a ready worker", lambda: log.exists() and "is ready after" in log.read_text())
    assert log.stat().st_mode & 0o777 == 0o640
    assert served.lurcher.stop() == 0
    assert served.lurcher.err() == ""
    nowhere = stage.lurcher(*stage.fake().options, "--log-file", str(tmp_path / "no" / "log"))
    assert nowhere.wait_exit() == 1
    assert "cannot open the log file" in nowhere.err()


# ---- Names


def test_processes_say_what_they_are(stage: Stage) -> None:
    served = Served(stage, "process:application", ["--workers", "2"])
    served.lurcher.wait_for_workers(2)
    assert served.ask("/").status == 200
    wait_for(
        "both workers to be named",
        lambda: (
            {bytes(command_line(pid)[0]) for pid in served.lurcher.worker_pids()}
            == {b"lurcher: worker-%d (process:application)" % number for number in (1, 2)}
        ),
    )
    assert command_line(served.lurcher.pid)[0] == b"lurcher: instance (process:application)"
    names = [Path(f"/proc/{pid}/comm").read_text() for pid in served.lurcher.processes()]
    assert sorted(names) == ["lurcher\n", "lurcher-w1\n", "lurcher-w2\n"]


# ---- As the first process of a container


@pytest.mark.timeout(60)
def test_the_first_process_buries_strays_and_needs_no_disk(stage: Stage) -> None:
    """A pid namespace of its own, and not one file system that can be written to."""
    fake = stage.fake()
    words = [*fake.options, "--wsgi-app", "strays:application", "--app-path", str(APPS)]
    space = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    closed = 'mount -o remount,bind,ro / && exec "$@"'
    command = [*space, "--pid", "--mount", "--fork", "sh", "-c", closed, "sh", str(COMMAND)]
    lurcher = Lurcher(stage.directory, words, command=command, env={"XDG_RUNTIME_DIR": ""})
    try:
        fake.send(wire.request(fake.ident, 1, "/", "GET", None, b"", protocol="json"))
        data, _ = fake.collect(1, 20.0)
        assert data.endswith(b"parent 1, disk closed"), data
        (instance,) = (
            pid for pid in lurcher.processes() if command_line(pid)[0].startswith(b"lurcher: inst")
        )
        children = Path(f"/proc/{instance}/task/{instance}/children")
        wait_for("the stray to be buried", lambda: len(children.read_text().split()) == 1)
        os.kill(instance, signal.SIGTERM)
        assert lurcher.wait_exit() == 0, lurcher.err()
    finally:
        lurcher.clear_away()
