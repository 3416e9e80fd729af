"""What a service manager sees, and the units that are given to it."""

from __future__ import annotations

import configparser
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.manager import Manager
from support.process import APPS, COMMAND, command_line
from support.rawhttp import Client
from support.served import Served
from support.stage import Stage
from support.waiting import wait_for

UNITS = Path(__file__).resolve().parents[2] / "proxy-configs" / "systemd"
UNIT = UNITS / "lurcher@.service"


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = f"@lurcher-{tmp_path.name}-{os.getpid()}"
    manager = Manager(str(tmp_path / "notify") if request.param == "path" else name)
    yield manager
    manager.socket.close()


@pytest.mark.timeout(60)
def test_it_is_ready_when_requests_are_taken_and_says_when_it_stops(
    stage: Stage, manager: Manager
) -> None:
    """The socket is the instance's alone: an application does not even know of it."""
    gate = stage.directory / "gate"
    served = Served(
        stage, "waits_for_gate:application", env={**manager.environment, "GATE": str(gate)}
    )
    first = manager.hear()
    assert first["STATUS"].startswith("starting: 0 of 1 workers ready"), first
    assert "READY" not in manager.names()
    gate.touch()
    assert manager.hear_until("READY") == {"READY": "1"}
    assert manager.hear_until("STATUS")["STATUS"].startswith("serving: 1 of 1 workers ready")
    assert served.text("/") == "None"
    assert served.lurcher.stop() == 0
    manager.hear_until("STOPPING")
    assert [m for _, m in manager.heard].count({"READY": "1"}) == 1


@pytest.mark.timeout(60)
def test_a_reload_is_told_from_its_begin_to_its_end(stage: Stage, tmp_path: Path) -> None:
    """Also one that is refused, for systemd waits for both."""
    settings = tmp_path / "lurcher.toml"
    settings.write_text("workers = 1\n")
    manager = Manager(str(tmp_path / "notify"))
    served = Served(
        stage, "process:application", ["--config", str(settings)], env=manager.environment
    )
    manager.hear_until("READY")
    for text, reason in [("workers = 2\n", "reloaded: 2 workers"), ("worker = 3\n", "wrong")]:
        settings.write_text(text)
        before = time.monotonic_ns() // 1000
        served.lurcher.send_signal(signal.SIGHUP)
        begun = manager.hear_until("RELOADING")
        assert before <= int(begun["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        manager.hear_until("READY")
        assert reason in served.lurcher.wait_for_err(reason)
    assert served.ask("/").status == 200
    manager.socket.close()


@pytest.mark.timeout(60)
def test_an_application_that_does_not_load_is_never_ready(stage: Stage, manager: Manager) -> None:
    lurcher = stage.lurcher(
        *stage.fake().options, app="raises_at_import:application", env=manager.environment
    )
    assert lurcher.wait_exit() == 4
    manager.hear_until("STOPPING")
    assert "READY" not in manager.names()


@pytest.mark.timeout(60)
def test_signs_of_life_come_at_least_twice_as_often_as_asked(stage: Stage, tmp_path: Path) -> None:
    """None come while the instance stands still."""
    manager = Manager(str(tmp_path / "notify"))
    environment = {**manager.environment, "WATCHDOG_USEC": "2000000"}
    served = Served(stage, "process:application", env=environment)
    manager.hear_until("READY")
    for _ in range(4):
        manager.hear_until("WATCHDOG")
    beats = [at for at, message in manager.heard if "WATCHDOG" in message]
    assert max(b - a for a, b in itertools.pairwise(beats)) < 2.0
    os.kill(served.lurcher.pid, signal.SIGSTOP)
    manager.socket.settimeout(1.5)
    # What was sent before it stood still, and then nothing.
    with pytest.raises(TimeoutError):
        manager.hear_all()
    os.kill(served.lurcher.pid, signal.SIGCONT)
    manager.socket.settimeout(20)
    manager.hear_until("WATCHDOG")
    manager.socket.close()


@pytest.mark.timeout(60)
def test_a_manager_that_is_not_there_is_no_matter(stage: Stage, tmp_path: Path) -> None:
    for address, said in [(str(tmp_path / "gone"), ""), ("vsock:2:77", "NOTIFY_SOCKET cannot be")]:
        served = Served(stage, "process:application", env={"NOTIFY_SOCKET": address})
        shown = served.ask("/").json()
        assert shown["notify"] is None
        assert said in served.lurcher.err()


# ---- The units


def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path) -> None:
    """With and without what hardens it. The command is put where it is on this machine."""
    unit = tmp_path / "lurcher@shop.service"
    unit.write_text(UNIT.read_text().replace("/opt/lurcher/bin/lurcher", str(COMMAND)))
    shutil.copytree(UNITS / "lurcher@.service.d", tmp_path / "lurcher@.service.d")
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    exposure = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit)],
        capture_output=True,
        text=True,
    )
    assert exposure.returncode == 0, exposure.stdout[-300:]


@pytest.mark.parametrize(
    "names", [["lurcher-serve.service", "lurcher-serve.socket"], ["lurcher-front.service"]]
)
def test_systemd_finds_no_fault_with_the_units_of_serve_and_front(
    tmp_path: Path, names: list[str]
) -> None:
    units = [tmp_path / name for name in names]
    for unit in units:
        text = (UNITS / unit.name).read_text()
        unit.write_text(text.replace("/opt/lurcher/bin/lurcher", str(COMMAND)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, units)], capture_output=True, text=True
    )
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def command_of(name: str, settings: Path) -> list[str]:
    """What a unit would run, with other settings."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(UNITS / name)
    assert unit["Service"]["Type"] == "notify"
    words = unit["Service"]["ExecStart"].split()
    return [str(settings) if word.startswith("/etc/lurcher/") else word for word in words[1:]]


@pytest.mark.timeout(60)
def test_the_unit_of_the_front_end_starts_one_that_serves(stage: Stage, tmp_path: Path) -> None:
    settings = tmp_path / "front.toml"
    settings.write_text(
        f"[front]\nbind = '127.0.0.1:0'\nroute = ['/=ipc://{tmp_path}/s,ipc://{tmp_path}/r']\n"
    )
    manager = Manager(str(tmp_path / "notify"))
    words = command_of("lurcher-front.service", settings)
    front = stage.lurcher(*words, app=None, env=manager.environment)
    manager.hear_until("READY")
    assert front.stop() == 0
    manager.hear_until("STOPPING")
    manager.socket.close()


@pytest.mark.timeout(60)
def test_the_unit_of_serve_takes_the_sockets_of_its_socket_unit(
    stage: Stage, tmp_path: Path
) -> None:
    """Clients that come before it has loaded wait; a front end that dies leaves the sockets to the next one."""
    gate = tmp_path / "gate"
    settings = tmp_path / "serve.toml"
    settings.write_text(f"wsgi-app = 'waits_for_gate:application'\napp-path = '{APPS}'\n")
    words = command_of("lurcher-serve.service", settings)
    manager = Manager(str(tmp_path / "notify"))
    path = tmp_path / "http"
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as tcp:
        unix.bind(str(path))
        unix.listen()
        # As systemd does it: descriptors from 3 on, and variables that name the process.
        script = f"exec 3<&{tcp.fileno()} 4<&{unix.fileno()}; "
        script += 'LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=a:b exec "$@"'
        command = ["bash", "-c", script, "bash", str(COMMAND)]
        environment = {**manager.environment, "GATE": str(gate)}
        lurcher = stage.lurcher(
            *words,
            app=None,
            env=environment,
            command=command,
            pass_fds=[tcp.fileno(), unix.fileno()],
        )
        port = tcp.getsockname()[1]
        with Client(port) as early, socket.socket(socket.AF_UNIX) as other:
            early.send_request("GET", "/")
            other.settimeout(20)
            other.connect(str(path))
            other.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            (worker,) = lurcher.wait_for_workers(1)
            variables = Path(f"/proc/{worker}/environ").read_bytes()
            assert b"LISTEN_" not in variables
            gate.touch()
            assert early.response("GET").status == 200
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        manager.hear_until("READY")
        wait_for("its addresses", lambda: lurcher.out().count("serving at ") == 2)
        assert f"serving at http://127.0.0.1:{port}\n" in lurcher.out()
        assert f"serving at unix:{path}\n" in lurcher.out()
        (front,) = (
            pid for pid in lurcher.processes() if command_line(pid)[0].startswith(b"lurcher: front")
        )
        os.kill(front, signal.SIGKILL)
        lurcher.wait_for_err("the front end died")
        with Client(port) as client:
            assert client.get("/").status == 200
        assert lurcher.stop() == 0
        assert path.exists(), "it is not ours"
        with Client(port):
            pass
    manager.socket.close()


def test_sockets_that_are_not_there_are_missed(stage: Stage) -> None:
    lurcher = stage.lurcher("serve", "x:y", "--bind", "systemd", app=None)
    assert lurcher.wait_exit() == 1
    assert "cannot bind systemd: no socket was handed over" in lurcher.err()


@pytest.mark.timeout(60)
def test_the_unit_starts_one_that_serves(stage: Stage, tmp_path: Path) -> None:
    """What it would run, with the socket and the watchdog that it asks for, up to its stop."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["Type"] == "notify"
    fake = stage.fake()
    recv, send = fake.options[1], fake.options[3]
    settings = tmp_path / "shop.toml"
    settings.write_text(
        f'wsgi-app = "process:application"\napp-path = "{APPS}"\n'
        f'[[link]]\nrecv = "{recv}"\nsend = "{send}"\n'
    )
    command = service["ExecStart"].replace("/etc/lurcher/%i.toml", str(settings)).split()
    assert command[0].endswith("/lurcher")
    manager = Manager(str(tmp_path / "notify"))
    watchdog = {"WATCHDOG_USEC": str(int(service["WatchdogSec"]) * 1_000_000)}
    lurcher = stage.lurcher(*command[1:], app=None, env={**manager.environment, **watchdog})
    manager.hear_until("READY")
    assert "WATCHDOG" in manager.hear_until("STATUS")
    lurcher.stop(getattr(signal, service.get("KillSignal", "SIGTERM")))
    manager.hear_until("STOPPING")
    assert "64" in service["RestartPreventExitStatus"].split()
    assert int(service["TimeoutStopSec"]) > 30
    manager.socket.close()
