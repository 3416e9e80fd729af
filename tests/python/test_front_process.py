"""Our own front end as a process of its system: signals, logs, settings that change, users, who is told how it is."""

from __future__ import annotations

import os
import pty
import pwd
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from support.manager import Manager
from support.opened import opened
from support.own import OwnFront, OwnHandler, echo
from support.process import COMMAND, Lurcher, command_line
from support.rawhttp import Client
from support.stage import Stage
from support.waiting import wait_for

LISTENING = re.compile(r"listening at 127\.0\.0\.1:(\d+)")


def started(
    stage: Stage, *options: str, said: Path | None = None, env: dict[str, str] | None = None
) -> tuple[Lurcher, int]:
    """A front end and its port, found in its log, which may be a file."""
    route = f"/=ipc://{stage.directory}/send,ipc://{stage.directory}/recv"
    words = ["front", "--bind", "127.0.0.1:0", "--route", route, *options]
    front = stage.lurcher(*words, app=None, env=env)

    def look() -> re.Match[str] | None:
        assert front.is_alive(), front.err()
        text = front.err() if said is None else said.read_text() if said.exists() else ""
        return LISTENING.search(text)

    found = wait_for("its port", look, 20)
    assert found is not None
    return front, int(found[1])


def refused(port: int) -> None:
    """A request that the front end answers by itself, and logs."""
    with Client(port) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert client.response("GET").status == 400


def test_renamed_logs_are_opened_anew(stage: Stage, tmp_path: Path) -> None:
    log, access = tmp_path / "front.log", tmp_path / "access.log"
    front, port = started(stage, "--log-file", str(log), "--access-log", str(access), said=log)
    refused(port)
    wait_for("the access line", lambda: access.read_text().count("\n") == 1)
    old_log, old_access = log.rename(tmp_path / "log.1"), access.rename(tmp_path / "access.1")
    front.send_signal(signal.SIGUSR1)
    wait_for("new files", lambda: log.exists() and access.exists())
    assert log.stat().st_mode & 0o777 == 0o640
    refused(port)
    wait_for("the access line", lambda: access.read_text().count("\n") == 1)
    assert front.stop() == 0
    assert "ended: " in log.read_text()
    assert "ended: " not in old_log.read_text()
    assert old_access.read_text().count("\n") == 1
    assert front.err() == ""


def test_records_go_to_the_log_service(stage: Stage, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.settimeout(10)
        service.bind(str(tmp_path / "log"))
        route = f"/=ipc://{tmp_path}/send,ipc://{tmp_path}/recv"
        words = ["front", "--bind", "127.0.0.1:0", "--route", route]
        front = stage.lurcher(*words, "--syslog", str(tmp_path / "log"), app=None)
        line = service.recv(4096).decode()
        assert re.match(rf"<30>1 \S+ - lurcher-front {front.pid} - - listening at ", line), line
        assert front.stop() == 0
        assert front.err() == ""


def test_a_hangup_reads_the_settings_again(stage: Stage, tmp_path: Path) -> None:
    """What can change changes at once, also for a connection that is open; the rest is named."""
    file = tmp_path / "lurcher.toml"
    file.write_text('wsgi-app = "x:y"\n[front]\nmax-body = 5\n')
    front = OwnFront(tmp_path / "f", ["--config", str(file)])
    stage.lurchers.append(front.process)
    with OwnHandler(front, echo), Client(front.port) as client:
        assert client.get("/first").body == b"/first "
        file.write_text(
            'max-body = 3\nlog-level = "debug"\n'
            '[front]\nident = "another"\naccess-log = "-"\nhead-limit = "1K"\n'
        )
        front.process.send_signal(signal.SIGHUP)
        said = front.process.wait_for_err("reloaded: the settings are read again")
        for name in ("ident", "access-log"):
            assert f"{name} has changed: it needs a restart, and stays as it was" in said
        assert said.count("needs a restart") == 2
        client.send_request("POST", "/too-large", [("Content-Length", "4")], b"1234")
        assert client.response("POST").status == 413
        with Client(front.port) as other:
            other.send(b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 2000 + b"\r\n\r\n")
            assert other.response("GET").status == 431

        file.write_text('max-body = 30\n[front]\nhead-limt = "8K"\nretry = "often"\n')
        front.process.send_signal(signal.SIGHUP)
        said = front.process.wait_for_err("reload failed: the settings are wrong")
        assert "front.head-limt is no setting; did you mean head-limit?" in said
        assert '"often" is none of never, idempotent' in said
        with Client(front.port) as other:
            other.send_request("POST", "/too-large", [("Content-Length", "4")], b"1234")
            assert other.response("POST").status == 413, "nothing has changed"
        # And once more, with a larger limit.
        file.write_text("max-body = 30\n")
        front.process.send_signal(signal.SIGHUP)
        front.process.wait_for_err_count("reloaded: the settings are read again", 2)
        with Client(front.port) as other:
            other.send_request("POST", "/fits", [("Content-Length", "4")], b"1234")
            assert other.response("POST").body == b"/fits 1234"


def test_signals_that_mean_something_to_others_only(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front, echo), Client(front.port) as client:
        for name in ("USR2", "TTIN", "TTOU", "PIPE", "WINCH"):
            front.process.send_signal(signal.Signals[f"SIG{name}"])
            assert client.get(f"/{name}").body == f"/{name} ".encode()


def test_a_hangup_of_its_terminal_ends_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    route = f"/=ipc://{tmp_path}/send,ipc://{tmp_path}/recv"
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(theirs, 2)
        os.execv(COMMAND, [str(COMMAND), "front", "--bind", "127.0.0.1:0", "--route", route])
    os.close(theirs)
    said = b""
    while b"listening at" not in said:
        said += os.read(ours, 4096)
    os.kill(pid, signal.SIGHUP)
    _, status = os.waitpid(pid, 0)
    os.close(ours)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_pid_file_lives_as_long_as_its_front_end(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "front.pid"
    front, port = started(stage, "--pid-file", str(path))
    assert path.read_text() == f"{front.pid}\n"
    assert command_line(front.pid)[0] == b"lurcher: front end"
    assert Path(f"/proc/{front.pid}/comm").read_text() == "lurcher-front\n"
    second = stage.command("front", "--route", "/=ipc:///x,ipc:///y", "--pid-file", str(path))
    assert second.returncode == 73
    assert f"its lurcher still runs (pid {front.pid})" in second.stderr
    assert path.read_text() == f"{front.pid}\n"
    refused(port)
    assert front.stop() == 0
    assert not path.exists()
    path.write_text(f"{front.pid}\n")
    third, _ = started(stage, "--pid-file", str(path))
    assert f"was left behind by pid {front.pid}; taken over" in third.err()


def test_root_binds_and_serves_as_another_user(stage: Stage, tmp_path: Path) -> None:
    """The files of its sockets, its log and its access log are that user's; their mode is as the umask says."""
    route = f"/=ipc://{tmp_path}/send,ipc://{tmp_path}/recv"
    http, log, access = tmp_path / "http", tmp_path / "front.log", tmp_path / "access.log"
    words = ["front", "--bind", f"unix:{http}", "--route", route, "--user", "nobody"]
    words += ["--umask", "007", "--log-file", str(log), "--access-log", str(access)]
    words += ["--config", "/dev/null"]
    if os.geteuid() != 0:
        told = stage.command(*words)
        assert told.returncode == 64
        assert "only root can become another user or group" in told.stderr
        return
    # Nobody else may make a file here.
    tmp_path.chmod(0o755)
    front = stage.lurcher(*words, app=None, command=opened(stage.directory))
    wait_for("it to listen", lambda: log.exists() and "listening at" in log.read_text(), 20)
    nobody = pwd.getpwnam("nobody")
    status = Path(f"/proc/{front.pid}/status").read_text().splitlines()
    (uids,) = (line.split()[1:] for line in status if line.startswith("Uid:"))
    (groups,) = (line.split()[1:] for line in status if line.startswith("Groups:"))
    assert uids == [str(nobody.pw_uid)] * 4
    assert "0" not in groups
    for path in (http, tmp_path / "send", tmp_path / "recv"):
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (
            nobody.pw_uid,
            nobody.pw_gid,
            0o770,
        )
    assert (log.stat().st_uid, access.stat().st_uid) == (nobody.pw_uid,) * 2
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(http))
        client.sendall(b"nonsense\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    assert front.stop() == 0


def test_a_service_manager_hears_how_it_is(stage: Stage, tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    file = tmp_path / "lurcher.toml"
    file.write_text("[front]\n")
    environment = {**manager.environment, "WATCHDOG_USEC": "600000"}
    front, _ = started(stage, "--config", str(file), env=environment)
    assert manager.hear_until("READY") == {"READY": "1"}
    status = manager.hear_until("STATUS")
    assert status["STATUS"].startswith("serving: handlers: 0, connections: "), status
    assert status["WATCHDOG"] == "1"
    for text in ("[front]\nhead-limit = 2000\n", "[front]\nhead-limit = 2\n"):
        file.write_text(text)
        before = time.monotonic_ns() // 1000
        front.send_signal(signal.SIGHUP)
        begun = manager.hear_until("RELOADING")
        assert before <= int(begun["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        manager.hear_until("READY")
    # It stands still: nobody says that it lives.
    front.send_signal(signal.SIGSTOP)
    manager.socket.settimeout(1.5)
    with pytest.raises(TimeoutError):
        manager.hear_all()
    front.send_signal(signal.SIGCONT)
    manager.socket.settimeout(20)
    manager.hear_until("WATCHDOG")
    assert front.stop() == 0
    manager.hear_until("STOPPING")
    manager.socket.close()
