"""`lurcher serve`: everything by one command, and everything ended with it."""

from __future__ import annotations

import errno
import json
import os
import pty
import random
import re
import signal
import socket
from pathlib import Path

import pytest
from support.process import APPS, COMMAND, Lurcher, command_line
from support.rawhttp import Client, get
from support.serving import places, port_of, serve
from support.stage import Stage
from support.waiting import wait_for


def child(lurcher: Lurcher, word: bytes) -> int:
    """The front end or the instance, by its title."""

    def look() -> list[int]:
        return [
            pid
            for pid in lurcher.processes()
            if any(argument.startswith(word) for argument in command_line(pid))
        ]

    [pid] = wait_for(f"a process with {word!r}", look)
    return pid


def ended(pid: int) -> bool:
    return not command_line(pid)


def test_one_command_serves_and_leaves_nothing(stage: Stage) -> None:
    lurcher = serve(stage, "--workers", "2", "--threads", "3")
    port = port_of(lurcher)
    assert get(port, "/echo").status == 200
    assert len(lurcher.worker_pids()) == 2
    assert len(list(places(stage).iterdir())) == 1
    [place] = places(stage).iterdir()
    assert place.stat().st_mode & 0o777 == 0o700
    assert lurcher.stop() == 0
    assert not list(places(stage).iterdir())
    # Nothing of it is anything to worry about.
    assert not re.search(" (WARN|ERROR) ", lurcher.err()), lurcher.err()
    with pytest.raises(ConnectionRefusedError):
        Client(port)


def test_several_addresses(stage: Stage) -> None:
    path = stage.directory / "http"
    lurcher = serve(stage, "--bind", f"unix:{path}", "--bind", "[::1]:0")
    port = port_of(lurcher)
    assert get(port, "/who").status == 200
    six = re.search(r"serving at http://\[::1\]:(\d+)", lurcher.out())
    assert six is not None
    for family, address in ((socket.AF_INET6, ("::1", int(six[1]))), (socket.AF_UNIX, str(path))):
        with socket.socket(family) as client:
            client.settimeout(10)
            client.connect(address)
            client.sendall(b"GET /who HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"listening at unix:{path}" in lurcher.err()
    assert lurcher.stop() == 0
    assert not path.exists()


def loading(stage: Stage, path: Path) -> tuple[Lurcher, int]:
    """One that is to serve at a Unix socket and is loading its application until what comes with it is closed."""
    go = stage.directory / "go"
    os.mkfifo(go)
    (stage.directory / "waits.py").write_text(
        f"open({str(go)!r}).read()\nfrom probe import application\n"
    )
    words = ["serve", "waits:application", "--app-path", str(stage.directory)]
    env = {"PYTHONPATH": str(APPS)}
    lurcher = stage.lurcher(*words, "--bind", f"unix:{path}", app=None, env=env)
    lurcher.wait_for_workers(1)
    return lurcher, os.open(go, os.O_WRONLY)


def test_nobody_gets_in_before_the_application_is_loaded(stage: Stage) -> None:
    path = stage.directory / "http"
    lurcher, writer = loading(stage, path)
    with socket.socket(socket.AF_UNIX) as client:
        assert client.connect_ex(str(path)) == errno.ECONNREFUSED
    assert "serving" not in lurcher.out()
    os.close(writer)
    wait_for("the address", lambda: f"serving at unix:{path}" in lurcher.out())
    with socket.socket(socket.AF_UNIX) as client:
        assert client.connect_ex(str(path)) == 0
    assert lurcher.stop() == 0
    assert "subscribed within" not in lurcher.err()


def test_who_loads_longer_takes_no_socket_from_another(stage: Stage) -> None:
    path = stage.directory / "http"
    late, writer = loading(stage, path)
    lurcher = serve(stage, "--bind", f"unix:{path}")
    wait_for("the address", lambda: f"serving at unix:{path}" in lurcher.out())
    os.close(writer)
    assert late.wait_exit() == 1
    assert f"cannot listen at unix:{path}: address in use" in late.err()
    with socket.socket(socket.AF_UNIX) as client:
        assert client.connect_ex(str(path)) == 0


def test_an_application_that_does_not_load_ends_all(stage: Stage) -> None:
    lurcher = serve(stage, app="raises_at_import:application")
    assert lurcher.wait_exit() == 4
    assert "Traceback" in lurcher.err()
    assert lurcher.out() == ""
    lurcher.assert_no_orphans()
    assert not list(places(stage).iterdir())


def test_a_port_that_is_taken_is_told_at_once(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        lurcher = serve(stage, bind=address)
        assert lurcher.wait_exit() == 1
    assert f"cannot bind {address}: " in lurcher.err()
    assert not stage.record()


def test_all_that_is_wrong_is_told_together(stage: Stage) -> None:
    lurcher = serve(stage, "--workers", "0", app=None, bind="8000")
    assert lurcher.wait_exit() == 64
    for words in ("--bind", "--workers", "wsgi-app", "for example: lurcher serve "):
        assert words in lurcher.err(), lurcher.err()
    assert serve(stage, "--recv", "tcp://127.0.0.1:5000").wait_exit() == 64


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("group", [False, True], ids=["one", "group"])
def test_stopping_finishes_what_was_taken(
    stage: Stage, number: signal.Signals, group: bool
) -> None:
    lurcher = serve(stage)
    with Client(port_of(lurcher)) as client:
        client.send_request("GET", "/number/7?ms=500")
        wait_for(
            "the request to begin",
            lambda: any(line.startswith("begun 7") for line in stage.record()),
        )
        if group:
            lurcher.send_signal_group(number)
        else:
            lurcher.send_signal(number)
        assert client.response().body == b"7"
    assert lurcher.wait_exit() == 0
    lurcher.assert_no_orphans()


def test_a_second_signal_ends_it_at_once(stage: Stage) -> None:
    lurcher = serve(stage)
    with Client(port_of(lurcher)) as client:
        client.send_request("GET", "/number/7?ms=60000")
        wait_for(
            "the request to begin",
            lambda: any(line.startswith("begun 7") for line in stage.record()),
        )
        lurcher.send_signal(signal.SIGINT)
        lurcher.wait_for_err("stopping")

        def ends() -> bool:
            # The first one and one that follows at once count as one.
            lurcher.send_signal(signal.SIGINT)
            return not lurcher.is_alive()

        wait_for("its end", ends, 15)
        assert lurcher.wait_exit() == 1
    lurcher.assert_no_orphans()


@pytest.mark.parametrize(
    "word", [b"lurcher: front", b"lurcher: instance"], ids=["front end", "instance"]
)
def test_a_process_that_dies_is_started_again(stage: Stage, word: bytes) -> None:
    lurcher = serve(stage)
    port = port_of(lurcher)
    assert get(port, "/who").status == 200
    pid = child(lurcher, word)
    os.kill(pid, signal.SIGKILL)
    wait_for("its end", lambda: ended(pid))

    def served() -> bool:
        try:
            return get(port, "/who").status == 200
        except OSError:
            return False

    wait_for("to be served again", served, 20)
    assert " died (" in lurcher.err()
    assert lurcher.stop() == 0


def test_nothing_outlives_it(stage: Stage) -> None:
    lurcher = serve(stage)
    port_of(lurcher)
    lurcher.send_signal(signal.SIGKILL)
    lurcher.wait_exit()
    lurcher.assert_no_orphans(10)
    [left] = places(stage).iterdir()
    # Not its directory either, once there is somebody to clear it away.
    port_of(serve(stage))
    assert not left.exists()


def test_closed_standard_streams_do_no_harm(stage: Stage) -> None:
    """A socket would else become standard output, and what the application prints would go to it."""
    path = stage.directory / "http"
    (stage.directory / "prints.py").write_text(
        "from probe import application as probe\n"
        "def application(environ, start_response):\n"
        "    print('x' * 100_000, flush=True)\n"
        "    return probe(environ, start_response)\n"
    )
    words = (
        f"exec {COMMAND} serve prints:application --app-path {stage.directory} --bind unix:{path}"
    )
    lurcher = stage.lurcher(
        app=None, env={"PYTHONPATH": str(APPS)}, command=("sh", "-c", f"{words} <&- >&- 2>&-")
    )

    def answer() -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            if client.connect_ex(str(path)) != 0:
                return b""
            client.sendall(b"GET /who HTTP/1.1\r\nHost: x\r\n\r\n")
            return client.recv(100)

    assert wait_for("an answer", answer, 20).startswith(b"HTTP/1.1 200 OK\r\n")
    assert lurcher.stop() == 0


def test_each_request_has_a_line_whoever_answered_it(stage: Stage) -> None:
    log = stage.directory / "access.log"
    lurcher = serve(
        stage,
        *("--access-log", str(log), "--access-log-format", "json", "--max-body", "4K"),
        *("--inline-limit", "1K", "--head-timeout", "300ms", "--response-timeout", "2s"),
    )
    port = port_of(lurcher)

    def ask(data: bytes) -> int:
        with Client(port) as client:
            client.send(data)
            return client.response().status

    head = b" HTTP/1.1\r\nHost: x\r\n"
    assert get(port, "/number/1").status == 200
    assert ask(b"OPTIONS *" + head + b"\r\n") == 200
    assert ask(b"GET /bad" + head + b"X : y\r\n\r\n") == 400
    assert ask(b"GET /long" + head) == 408
    assert ask(b"POST /large" + head + b"Content-Length: 5000\r\n\r\n") == 413
    chunk = b"%x\r\n%s\r\n" % (3000, b"x" * 3000)
    assert ask(b"POST /chunks" + head + b"Transfer-Encoding: chunked\r\n\r\n" + 2 * chunk) == 413
    assert ask(b"POST /what" + head + b"Expect: wonders\r\n\r\n") == 417
    assert ask(b"CONNECT /x" + head + b"\r\n") == 501
    assert ask(b"GET / HTTP/2.0\r\n\r\n") == 505
    assert get(port, "/number/2?ms=2500").status == 504
    instance = child(lurcher, b"lurcher: instance")
    with Client(port) as client:
        client.send_request("GET", "/number/3?ms=2500")
        wait_for("it to begin", lambda: any(line.startswith("begun 3") for line in stage.record()))
        os.kill(instance, signal.SIGKILL)
        assert client.response().status == 502
    lurcher.wait_for_err("it had is answered 502")
    wait_for("its successor", lambda: get(port, "/number/4").status == 200, 20)
    assert lurcher.stop() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ours = [(line["path"], line["status"], line["outcome"]) for line in lines if "route" in line]
    assert ours == [
        ("*", 200, "ok"),
        (None, 400, "refused"),
        (None, 408, "refused"),
        ("/large", 413, "refused"),
        ("/chunks", 413, "refused"),
        ("/what", 417, "refused"),
        (None, 501, "refused"),
        (None, 505, "refused"),
        ("/number/2", 504, "timed_out"),
        ("/number/3", 502, "handler_died"),
    ]
    theirs = [(line["path"], line["status"], line["outcome"]) for line in lines if "worker" in line]
    # The one that was late is told of twice, if its instance came to it before it died.
    assert [line for line in theirs if line[0] != "/number/2"] == [
        ("/number/1", 200, "ok"),
        ("/number/4", 200, "ok"),
    ]


def test_a_terminal_sees_each_request(stage: Stage) -> None:
    ours, theirs = pty.openpty()
    command = ["serve", "probe:application", "--app-path", str(APPS), "--bind", "127.0.0.1:0"]
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(theirs, 1)
        os.execv(COMMAND, [str(COMMAND), *command])
    os.close(theirs)
    said = b""
    try:

        def read_until(pattern: bytes) -> re.Match[bytes]:
            nonlocal said
            while (found := re.search(pattern, said)) is None:
                said += os.read(ours, 4096)
            return found

        port = int(read_until(rb"serving at http://127.0.0.1:(\d+)")[1])
        assert get(port, "/who").status == 200
        read_until(rb'"GET /who HTTP/1.1" 200')
        with Client(port) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\n")
            assert client.response().status == 417
        read_until(rb'"GET / HTTP/1.1" 417')
    finally:
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        os.close(ours)
    assert os.waitstatus_to_exitcode(status) == 0


def test_bodies_of_any_size_reach_the_application(stage: Stage) -> None:
    lurcher = serve(stage, app="told:application")
    port = port_of(lurcher)
    # A connection may begin with any of them, and the responses are as large: flow control is told of in every case.
    for sizes in ((0, 1024 * 1024, 1024 * 1024 + 1), (3_000_000, 0)):
        with Client(port) as client:
            for size in sizes:
                body = random.Random(size).randbytes(size)
                chunks = (b"%x\r\n%s\r\n" % (size, body) if size else b"") + b"0\r\n\r\n"
                for headers, sent in (([], body), ([("Transfer-Encoding", "chunked")], chunks)):
                    response = client.ask("POST", "/", headers, sent)
                    assert response.status == 200, lurcher.err()
                    assert response.json()["body"].encode("latin-1") == body
                    assert int(response.json()["CONTENT_LENGTH"]) == size
    [place] = places(stage).iterdir()
    assert not list((place / "uploads").iterdir())


def test_headers_reach_the_application_byte_for_byte(stage: Stage) -> None:
    lurcher = serve(stage, app="told:application")
    for value in ("caf\xe9", "caf\xc3\xa9", '"\\\x01\xff', "a\tb"):
        with Client(port_of(lurcher)) as client:
            assert client.get("/", [("X-Some", value)]).json()["HTTP_X_SOME"] == value


@pytest.mark.parametrize(("trusted", "scheme"), [("127.0.0.0/8", "https"), ("10.0.0.0/8", "http")])
def test_a_trusted_proxy_says_the_scheme(stage: Stage, trusted: str, scheme: str) -> None:
    lurcher = serve(stage, "--trust-forwarded-from", trusted, app="told:application")
    told = get(port_of(lurcher), "/", [("X-Forwarded-Proto", "https")]).json()
    assert told["wsgi.url_scheme"] == scheme
