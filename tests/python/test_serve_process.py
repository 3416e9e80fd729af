"""`lurcher serve` as a process of its system: one file, signals that are handed on, logs, pid file, users."""

from __future__ import annotations

import os
import pwd
import re
import signal
from pathlib import Path

from support.manager import Manager
from support.opened import opened
from support.process import APPS, command_line
from support.rawhttp import Client, get
from support.serving import port_of, serve
from support.stage import Stage
from support.waiting import wait_for


def status(port: int, size: int) -> int:
    """Of a request with a body of this size, for which the front end need not ask anybody if it is too large."""
    with Client(port) as client:
        client.send_request("POST", "/echo", [("Content-Length", str(size))], b"x" * size)
        return client.response("POST").status


def test_signals_are_handed_on(stage: Stage, tmp_path: Path) -> None:
    """TTIN and TTOU to the instance; HUP to both, if nothing is wrong in either part of the file."""
    manager = Manager(str(tmp_path / "notify"))
    file = tmp_path / "lurcher.toml"
    file.write_text("max-body = 5\n[front]\nhead-limit = 2000\n")
    lurcher = serve(stage, "--config", str(file), env=manager.environment)
    port = port_of(lurcher)
    manager.hear_until("READY")
    assert (status(port, 5), status(port, 6)) == (200, 413)
    for name in ("USR2", "WINCH"):
        lurcher.send_signal(signal.Signals[f"SIG{name}"])
    lurcher.send_signal(signal.SIGTTIN)
    lurcher.wait_for_workers(2)
    lurcher.wait_for_ready(2)
    lurcher.send_signal(signal.SIGTTOU)
    (worker,) = lurcher.wait_for_workers(1)

    file.write_text("max-body = 7\n[front]\nhead-limit = 2000\nbind = '127.0.0.1:1'\n")
    lurcher.send_signal(signal.SIGHUP)
    manager.hear_until("RELOADING")
    manager.hear_until("READY")
    said = lurcher.wait_for_err("reloaded: the settings are read again")
    wait_for("a new worker", lambda: worker not in lurcher.worker_pids())
    assert (status(port, 7), status(port, 8)) == (200, 413)
    (worker,) = lurcher.wait_for_workers(1)

    file.write_text("max-body = 9\n[front]\nhead-limt = 2000\n")
    lurcher.send_signal(signal.SIGHUP)
    said = lurcher.wait_for_err("reload failed: the settings are wrong; nothing has changed")
    assert said.count("front.head-limt is no setting; did you mean head-limit?") == 1
    manager.hear_until("RELOADING")
    manager.hear_until("READY")
    assert (status(port, 8), lurcher.worker_pids()) == (413, [worker])
    assert lurcher.stop() == 0
    manager.socket.close()


def test_all_logs_are_opened_anew(stage: Stage, tmp_path: Path) -> None:
    log, access = tmp_path / "all.log", tmp_path / "access.log"
    words = ["--log-file", str(log), "--access-log", str(access), "--log-level", "debug"]
    lurcher = serve(stage, *words)
    port = port_of(lurcher)
    assert get(port, "/who").status == 200
    wait_for("the access line", lambda: "GET /who" in access.read_text())
    old, old_access = log.rename(tmp_path / "all.1"), access.rename(tmp_path / "access.1")
    lurcher.send_signal(signal.SIGUSR1)

    def holders(path: Path) -> list[str]:
        links = [link for pid in lurcher.processes() for link in Path(f"/proc/{pid}/fd").iterdir()]
        return [str(link) for link in links if os.path.exists(link) and link.samefile(path)]

    wait_for("the old files to be let go", lambda: not holders(old) and not holders(old_access))
    assert get(port, "/echo").status == 200
    wait_for("the access line", lambda: "GET /echo" in access.read_text())
    assert lurcher.stop() == 0
    for process in ("lurcher-serve", "lurcher-front", "lurcher"):
        assert f" {process}[" in old.read_text(), process
        assert f" {process}[" in log.read_text(), process
    assert lurcher.err() == ""


def test_a_pid_file_lives_as_long_as_it(stage: Stage, tmp_path: Path) -> None:
    """It is the one of `serve`, also when the file names it, which front end and instance read too."""
    path, file = tmp_path / "serve.pid", tmp_path / "lurcher.toml"
    file.write_text(f"pid-file = '{path}'\n")
    lurcher = serve(stage, "--config", str(file))
    port = port_of(lurcher)
    assert path.read_text() == f"{lurcher.pid}\n"
    second = serve(stage, "--config", str(file))
    assert second.wait_exit() == 1
    assert f"its lurcher still runs (pid {lurcher.pid})" in second.err()
    assert get(port, "/who").status == 200
    assert lurcher.stop() == 0
    assert not path.exists()


def test_root_binds_and_everything_runs_as_another_user(stage: Stage, tmp_path: Path) -> None:
    http, file = tmp_path / "http", tmp_path / "lurcher.toml"
    file.write_text("user = 'nobody'\numask = '007'\n")
    words = ["serve", "process:application", "--app-path", str(APPS), "--config", str(file)]
    words += ["--bind", "127.0.0.1:0", "--bind", f"unix:{http}"]
    if os.geteuid() != 0:
        told = stage.command(*words)
        assert told.returncode == 64
        assert "only root can become another user or group" in told.stderr
        return
    # Other users may not pass pytest's directories, of which there is one more when several tests run at a time.
    for place in (tmp_path, *tmp_path.parents):
        mode = place.stat().st_mode
        if mode & 0o055 != 0o055:
            place.chmod(mode | 0o055)
    env = {"TMPDIR": "/tmp", "XDG_RUNTIME_DIR": ""}
    lurcher = stage.lurcher(*words, app=None, env=env, command=opened(stage.directory))
    port = port_of(lurcher)
    nobody = pwd.getpwnam("nobody")
    shown = get(port, "/").json()
    assert (shown["uid"], shown["gid"]) == ([nobody.pw_uid] * 2, [nobody.pw_gid] * 2)
    assert shown["names"]["USER"] == "nobody"
    assert (http.stat().st_uid, http.stat().st_mode & 0o777) == (nobody.pw_uid, 0o770)
    titles = {}
    for pid in lurcher.processes():
        text = Path(f"/proc/{pid}/status").read_text()
        uid = re.search(r"^Uid:\t(\d+)", text, re.MULTILINE)
        assert uid is not None
        titles[command_line(pid)[0].split(b" (")[0]] = int(uid[1])
    assert titles == {
        b"lurcher: serve": nobody.pw_uid,
        b"lurcher: front end": nobody.pw_uid,
        b"lurcher: instance": nobody.pw_uid,
        b"lurcher: worker-1": nobody.pw_uid,
    }
    assert lurcher.stop() == 0


def test_what_one_file_says_of_both_is_shown_and_checked(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "lurcher.toml").write_text(
        "wsgi-app = 'x:y'\nmax-body = '5M'\n[front]\nretry = 'idempotent'\nlog-level = 'error'\n"
    )
    shown = stage.command("serve", "--print-config", "--workers", "3")
    assert shown.returncode == 0, shown.stderr
    top, _, front = shown.stdout.partition("\n[front]\n")
    assert re.search(r"^workers = 3 +# command line, --workers$", top, re.MULTILINE)
    assert re.search(r'^max-body = "5M" +# file, lurcher.toml: max-body$', top, re.MULTILINE)
    assert re.search(r'^max-body = "5M" +# file, lurcher.toml: max-body$', front, re.MULTILINE)
    assert re.search(r'^log-level = "info"', top, re.MULTILINE)
    assert re.search(r'^log-level = "error"', front, re.MULTILINE)
    (tmp_path / "lurcher.toml").write_text(shown.stdout)
    again = stage.command("serve", "--print-config")
    values = [line.split("#")[0].strip() for line in shown.stdout.splitlines()]
    assert [line.split("#")[0].strip() for line in again.stdout.splitlines()] == values
    (tmp_path / "lurcher.toml").write_text("route = []\n[front]\nworkers = 1\nuser = 'root'\n")
    told = stage.command("serve", "x:y")
    assert told.returncode == 64
    assert "lurcher.toml: route: belongs into the [front] table" in told.stderr
    assert "front.workers: is a setting of the instance" in told.stderr
