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
from support.process import APPS, COMMAND
from support.served import Served
from support.stage import Stage

UNITS = Path(__file__).resolve().parents[2] / "proxy-configs" / "systemd"
UNIT = UNITS / "lurcher@.service"


class Manager:
    """The socket of a service manager, and what came on it: (time, {name: value})."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1))
        self.socket.settimeout(20)
        self.environment = {"NOTIFY_SOCKET": address}
        self.heard: list[tuple[float, dict[str, str]]] = []

    def hear(self) -> dict[str, str]:
        """The next message."""
        text = self.socket.recv(65536).decode()
        message = dict(line.split("=", 1) for line in text.splitlines())
        self.heard.append((time.monotonic(), message))
        return message

    def hear_until(self, name: str, seconds: float = 20.0) -> dict[str, str]:
        """Up to the message that has this name in it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = self.hear()
            if name in message:
                return message
        raise AssertionError(f"no {name}; heard: {self.heard}")

    def hear_all(self) -> None:
        """For ever, that is until the time is out."""
        while True:
            self.hear()

    def names(self) -> set[str]:
        return {name for _, message in self.heard for name in message}


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
