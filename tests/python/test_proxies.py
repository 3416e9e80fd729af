"""nginx, HAProxy and Apache before `lurcher serve`, each with its configuration from `proxy-configs`."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mongrel2 import free_ports
from support.process import APPS
from support.rawhttp import Client, get
from support.stage import Stage
from support.waiting import wait_for

CONFIGS = Path(__file__).resolve().parent.parent.parent / "proxy-configs"
TRIES = 5


def adapted(name: str, port: int, lurcher: int) -> str:
    """The configuration with ports of ours."""
    text = (CONFIGS / name).read_text()
    assert text.count("127.0.0.1:8080") >= 1
    assert len(re.findall(r"127\.0\.0\.1:8000\b", text)) >= 1
    return text.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace(
        "127.0.0.1:8000", f"127.0.0.1:{lurcher}"
    )


def nginx(directory: Path, port: int, lurcher: int) -> list[str]:
    # Its temporary files, which a distribution has its own places for.
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"    {name}_temp_path {directory / name};\n" for name in names)
    text = adapted("nginx/lurcher.conf", port, lurcher).replace("http {\n", "http {\n" + places, 1)
    (directory / "nginx.conf").write_text(text)
    rest = f"daemon off; pid {directory / 'nginx.pid'};"
    return ["nginx", "-p", str(directory), "-e", "stderr", "-c", "nginx.conf", "-g", rest]


def haproxy(directory: Path, port: int, lurcher: int) -> list[str]:
    (directory / "haproxy.cfg").write_text(adapted("haproxy/lurcher.cfg", port, lurcher))
    return ["haproxy", "-db", "-f", str(directory / "haproxy.cfg")]


def apache(directory: Path, port: int, lurcher: int) -> list[str]:
    site = adapted("apache/lurcher.conf", port, lurcher)
    modules = ("mpm_event", "authz_core", "proxy", "proxy_http", "headers")
    loads = "".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in modules
    )
    (directory / "apache.conf").write_text(
        f"ServerRoot {directory}\nPidFile {directory}/apache.pid\nErrorLog {directory}/error.log\n"
        f"ServerName localhost\nDefaultRuntimeDir {directory}\n{loads}{site}"
    )
    return ["apache2", "-D", "FOREGROUND", "-f", str(directory / "apache.conf")]


@dataclass
class Proxied:
    """A site behind a proxy."""

    port: int
    stage: Stage


@pytest.fixture(params=[nginx, haproxy, apache], ids=lambda make: make.__name__)
def proxied(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Proxied]:
    words = ["serve", "probe:application", "--app-path", str(APPS), "--bind", "127.0.0.1:0"]
    lurcher = stage.lurcher(*words, "--trust-forwarded-from", "127.0.0.1", app=None)
    serving = re.compile(r"serving at http://127\.0\.0\.1:(\d+)")
    found = wait_for("the address", lambda: serving.search(lurcher.out()), 20)
    assert found is not None
    make: Callable[[Path, int, int], list[str]] = request.param
    for attempt in range(TRIES):
        directory = stage.directory / f"proxy-{attempt}"
        directory.mkdir()
        [port] = free_ports(1)
        command = make(directory, port, int(found[1]))
        assert shutil.which(command[0]), f"{command[0]} is missing"
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

        def is_up(port: int = port, process: subprocess.Popen[bytes] = process) -> bool:
            if process.poll() is not None:
                return True
            try:
                return get(port, "/who").status == 200
            except OSError:
                return False

        wait_for("the proxy", is_up, 20)
        if process.poll() is None:
            break
        said = (directory / "log").read_text()
        assert "in use" in said, said
    try:
        yield Proxied(port, stage)
    finally:
        # Apache takes WINCH for a graceful end; TERM is at once for all three.
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def test_before_us(proxied: Proxied) -> None:
    """Keep-alive, who the client is, a body after `100 Continue`, a stream."""
    with Client(proxied.port) as client:
        first = client.get("/who")
        assert first.status == 200
        # On the same connection: nothing was closed after the first answer.
        seen = client.get("/environ", [("X-Forwarded-For", "6.6.6.6"), ("X-User", "me")]).json()
        # The client as the proxy saw it, and the proxy; not what the client said.
        assert seen["HTTP_X_FORWARDED_FOR"][1] == "127.0.0.1, 127.0.0.1"
        assert seen["HTTP_X_FORWARDED_PROTO"][1] == "http"
        assert seen["HTTP_HOST"][1] == "localhost"
        assert seen["HTTP_X_USER"][1] == "me"
        body = b"x" * 100_000
        head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        client.send(head % len(body))
        assert client.head()[1] == 100
        client.send(body)
        response = client.response()
        assert response.status == 200
        assert response.body == body
        assert client.get("/who").status == 200
