"""A pytest plugin for waitress' functional tests: what they start is one `lurcher serve` for an application.

The tests are left as they are, but for this:
* A request of HTTP/1.1 gets the Host that it must have.
* Where they wait for the end of the connection after chunks, which Lurcher does not close for that, they ask for it.
* The name of the server, the version in status lines (RFC 9110 section 2.5: the server's own), and the case of
  `keep-alive` make no difference.
"""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.serving import port_of, serve
from support.stage import Stage

SECONDS = 5
# Options of waitress, as `lurcher serve` has them.
OPTIONS: dict[str, Callable[[Any], list[str]]] = {
    # It takes no less than 1K.
    "max_request_header_size": lambda size: ["--head-limit", str(max(size, 1024))],
    "max_request_body_size": lambda size: ["--max-body", str(size)],
    "expose_tracebacks": lambda _: [],
    "trusted_proxy": lambda _: [],
    "trusted_proxy_count": lambda _: [],
    "trusted_proxy_headers": lambda _: [],
    "clear_untrusted_proxy_headers": lambda _: [],
}
CLOSE_AFTERWARDS = {
    "test_http11_generator",
    "test_http11_listlentwo",
    "test_notfilelike_nocl_http11",
}


class Servers:
    """One for each application and set of options, with a port and a Unix socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[tuple[str, ...], tuple[Stage, int, str]] = {}

    def get(self, app: str, *options: str) -> tuple[int, str]:
        key = (app, *options)
        if key not in self.running:
            directory = Path(tempfile.mkdtemp(dir=self.directory))
            stage = Stage(directory)
            path = str(directory / "http")
            bind = ["--bind", f"unix:{path}"]
            env = {"INNER_APP": app, "PYTHONPATH": str(Path.cwd())}
            lurcher = serve(stage, *bind, *options, app="with_remote_host:application", env=env)
            self.running[key] = (stage, port_of(lurcher), path)
        return self.running[key][1:]

    def end(self) -> None:
        for stage, _, _ in self.running.values():
            stage.clear_away()


class Socket(socket.socket):
    """Sends what is given, with what HTTP/1.1 asks for."""

    close_afterwards = False

    def send(self, data: Any, flags: int = 0) -> int:
        more = b"Connection: close\r\n" if self.close_afterwards else b""
        if b"\r\nhost:" not in data.lower():
            more += b"Host: localhost\r\n"
        said = re.sub(rb"\A(GET \S+ HTTP/1\.1\r\n)", rb"\1" + more, data)
        self.sendall(said, flags)
        return len(data)


@pytest.fixture(scope="session")
def _servers() -> Iterator[Servers]:
    # A short path: a Unix socket's has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="lurcher-") as directory:
        servers = Servers(Path(directory))
        yield servers
        servers.end()


@pytest.fixture(autouse=True)
def _lurcher(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _servers: Servers
) -> None:
    theirs = request.module.SubprocessTests

    def start(case: Any, target: Any, **settings: Any) -> None:
        options = [word for name in sorted(settings) for word in OPTIONS[name](settings[name])]
        port, path = _servers.get(f"{target.__module__}:{target.__name__}", *options)
        family = case.server.family
        case.bound_to = path if family == socket.AF_UNIX else ("127.0.0.1", port)
        case.sock = case.create_socket()

    def create_socket(case: Any) -> Socket:
        made = Socket(case.server.family, socket.SOCK_STREAM)
        made.settimeout(SECONDS)
        made.close_afterwards = case._testMethodName in CLOSE_AFTERWARDS
        return made

    def assertline(case: Any, line: bytes, status: str, reason: str, version: str) -> None:
        got = line.decode("latin-1").split(None, 2)
        assert got[1:] == [status, f"{reason}\r\n"]
        assert got[0][:7] == version[:7]

    read = request.module.read_http

    def read_http(file: Any) -> Any:
        line, headers, body = read(file)
        if headers.get("server", "").startswith("lurcher/"):
            headers["server"] = "waitress"
        if headers.get("connection") == "keep-alive":
            headers["connection"] = "Keep-Alive"
        return line, headers, body

    monkeypatch.setattr(request.module, "read_http", read_http)
    monkeypatch.setattr(theirs, "assertline", assertline)
    monkeypatch.setattr(theirs, "start_subprocess", start)
    monkeypatch.setattr(theirs, "stop_subprocess", lambda case: case.sock.close())
    monkeypatch.setattr(theirs, "create_socket", create_socket)
    monkeypatch.setattr(request.module.UnixTests, "stop_subprocess", lambda case: case.sock.close())
