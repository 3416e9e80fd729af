"""The instance as a process of its system: pid file, user, umask, working directory."""

from __future__ import annotations

import os
import pwd
import signal
from pathlib import Path

import pytest
from support.served import Served
from support.stage import Stage

NOBODY = pwd.getpwnam("nobody")


def become(stage: Stage, *options: str) -> Served | None:
    """One that is to become another user; nothing where that was rightly refused because this is not root."""
    if os.geteuid() == 0:
        return Served(stage, "process:application", options)
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
    options = ["--user", "nobody", "--pid-file", str(pid_file), "--access-log", str(access_log)]
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
    instance = Path(f"/proc/{served.lurcher.pid}/status").read_text().split("\n")
    (uids,) = (line.split()[1:] for line in instance if line.startswith("Uid:"))
    (groups,) = (line.split()[1:] for line in instance if line.startswith("Groups:"))
    assert uids == [str(NOBODY.pw_uid)] * 4
    assert "0" not in groups
    assert served.lurcher.stop() == 0
    # It lies where the user may not remove it; then it names nobody.
    assert not pid_file.exists() or pid_file.read_text() == ""
    assert access_log.read_text().count("GET / ") == 1


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
