"""The log of an instance and its workers: its file opened anew, how much is written, and how."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from support.served import Served
from support.stage import Stage
from support.waiting import wait_for


def holders(path: Path, pids: list[int]) -> list[str]:
    """Descriptors of these processes that are this file."""
    found = []
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if link.samefile(path):
                    found.append(str(link))
            except OSError:
                continue
    return found


@pytest.mark.timeout(60)
@pytest.mark.parametrize("more", [[], ["--preload"]])
def test_renamed_logs_are_opened_anew(stage: Stage, tmp_path: Path, more: list[str]) -> None:
    """By the instance, its workers, and what forks them; nothing is lost, and nobody keeps the old ones."""
    log, access = tmp_path / "lurcher.log", tmp_path / "access.log"
    options = ["--log-file", str(log), "--access-log", str(access), *more]
    served = Served(stage, "talking:application", options)
    assert served.ask("/stderr/first").status == 200
    wait_for("the access line", lambda: access.read_text().count("\n") == 1)
    old_log, old_access = tmp_path / "lurcher.log.1", tmp_path / "access.log.1"
    log.rename(old_log)
    access.rename(old_access)
    # Until it is told, nobody knows.
    worker = int(served.ask("/stderr/second").body)
    wait_for("the old access log", lambda: old_access.read_text().count("\n") == 2)
    assert not log.exists()

    served.lurcher.send_signal(signal.SIGUSR1)
    pids = served.lurcher.processes()
    wait_for("the old files to be let go", lambda: not holders(old_log, pids))
    wait_for("the old access log too", lambda: not holders(old_access, pids))
    assert served.ask("/stderr/third").status == 200
    assert served.ask("/raise/fourth").status == 500
    os.kill(worker, signal.SIGKILL)
    # A worker that starts later.
    assert served.ask("/stderr/fifth").status == 200
    assert served.lurcher.stop() == 0
    before, after = old_log.read_text(), log.read_text()
    assert [word in before for word in ("first\n", "second\n", "third\n")] == [True, True, False]
    assert [word in after for word in ("third\n", "fourth\n", "fifth\n")] == [True] * 3
    assert "ended after" in after
    assert old_access.read_text().count("\n") == 2
    assert access.read_text().count("\n") == 3
    assert log.stat().st_mode & 0o777 == 0o640


def test_a_log_that_cannot_be_opened_anew_stays(stage: Stage, tmp_path: Path) -> None:
    place = tmp_path / "logs"
    place.mkdir()
    log = place / "lurcher.log"
    served = Served(stage, "talking:application", ["--log-file", str(log)])
    assert served.ask("/stderr/first").status == 200
    place.rename(tmp_path / "moved")
    served.lurcher.send_signal(signal.SIGUSR1)
    kept = tmp_path / "moved" / "lurcher.log"
    wait_for("the error", lambda: "anew: No such file" in kept.read_text())
    assert served.ask("/stderr/second").status == 200
    assert "second\n" in kept.read_text()


@pytest.mark.timeout(60)
def test_the_level_changes_while_it_runs(stage: Stage) -> None:
    served = Served(stage, "talking:application", ["--log-level", "error"])
    served.ask("/stderr/x", headers={b"one_thing": b"x"})
    target = ("--pid", str(served.lurcher.pid))
    done = stage.command("log-level", "warning", *target)
    assert (done.returncode, done.stdout) == (0, "log level warning\n"), done.stderr
    # What a worker refuses, and says so.
    worker = int(served.ask("/stderr/y").body)
    assert served.ask("/stderr/x", headers={b"host": b"a b"}).status == 400
    served.lurcher.wait_for_err("WARN  worker-1")
    os.kill(worker, signal.SIGKILL)
    served.ask("/stderr/x", headers={b"one_thing": b"x"})
    served.lurcher.wait_for_err("WARN  worker-2")
    said = served.lurcher.err()
    assert "INFO" not in said
    assert "underscore" not in said.partition("worker-2")[0]
    assert stage.command("log-level", "info", *target).returncode == 0
    served.lurcher.wait_for_err("told to log from level info (pid ")
    wrong = stage.command("log-level", "loud", *target)
    assert wrong.returncode == 64
    assert "loud is none of error, warning, info, debug" in wrong.stderr


def test_records_are_json_objects(stage: Stage) -> None:
    """Of the instance and of a worker; what the application prints stays as it is."""
    served = Served(stage, "talking:application", ["--log-format", "json"])
    assert served.ask("/stderr/plain").status == 200
    worker = int(served.ask("/stderr/plain").body)
    assert served.ask("/raise/broken").status == 500
    assert served.lurcher.stop() == 0
    said = served.lurcher.err().splitlines()
    assert said.count("plain") == 2
    records = [json.loads(line) for line in said if line != "plain"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z", r["time"]) for r in records)
    first, last = records[0], records[-1]
    assert (first["level"], first["process"]) == ("info", "lurcher")
    assert (first["pid"], "text" in first) == (served.lurcher.pid, False)
    assert last["message"].startswith("ended after")
    (failure,) = [r for r in records if r["level"] == "error"]
    assert (failure["process"], failure["pid"]) == ("worker-1", worker)
    assert "GET /raise/broken" in failure["message"]
    lines = failure["text"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "RuntimeError: broken"
