"""The socket of a service manager, as systemd's."""

from __future__ import annotations

import socket
import time


class Manager:
    """What came on it: (time, {name: value})."""

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
