"""Lurcher's own front end, end to end: its clients, its handlers, and how they come and go."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.handler import Message
from support.load import Load
from support.own import OwnHandler, echo, wait_for_messages
from support.process import COMMAND
from support.rawhttp import Client, ClosedError, get, request
from support.rawzmtp import RawPeer
from support.stage import Stage
from support.waiting import wait_for

HOST = b"Host: x\r\n"


def exchange(port: int, data: bytes) -> bytes:
    """All that comes back for these bytes, to the end of the connection."""
    with Client(port) as client:
        client.send(data)
        return client.rest()


def status_of(port: int, data: bytes) -> int:
    answer = exchange(port, data)
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    assert b"\r\nConnection: close\r\n" in answer
    return int(answer.split()[1])


def test_a_request_reaches_a_handler_and_its_response_the_client(
    stage: Stage, protocol: str
) -> None:
    front = stage.own_front("--protocol", protocol)
    with OwnHandler(front, echo) as handler, Client(front.port) as client:
        response = client.ask("POST", "/a%20b?c=d", [("X-A", "1"), ("x-a", "2")], b"body")
        assert (response.status, response.body) == (200, b"/a%20b body")
        assert client.get("/second").body == b"/second "
        first, second = handler.messages
        assert handler.topics == [first.ident]
        assert first.conn == second.conn
        kept = dict(first.keys)
        assert kept.pop("DOWNLOAD_CREDITS") == "1048576"
        assert kept == {
            "PATH": "/a%20b",
            "host": "localhost",
            "x-a": ["1", "2"],
            "content-length": "4",
            "x-forwarded-for": "127.0.0.1",
            "METHOD": "POST",
            "VERSION": "HTTP/1.1",
            "URI": "/a%20b?c=d",
            "QUERY": "c=d",
            "PATTERN": "/",
            "URL_SCHEME": "http",
            "REMOTE_ADDR": "127.0.0.1",
        }
        client.close()
        gone = wait_for_messages(handler, 3)[2]
        assert gone.event == "disconnect"
        assert gone.conn == first.conn


def test_an_instance_serves_behind_it(stage: Stage, protocol: str) -> None:
    front = stage.own_front("--protocol", protocol)
    stage.lurcher(*front.options, "--workers", "2")
    with Client(front.port) as client:
        assert client.get("/number/7").body.endswith(b"7")
        big = client.get("/big?mb=3")
        assert len(big.body) == 3 << 20
        head = client.ask("HEAD", "/number/7")
        assert (head.status, head.body) == (200, b"")
        client.send(request("GET", "/number/1") + request("GET", "/number/2"))
        assert client.response("GET").body.endswith(b"1")
        assert client.response("GET").body.endswith(b"2")
        old = client.ask("GET", "/number/8", version="HTTP/1.0")
        assert old.header("Connection") == "close"
        client.assert_closed()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: user@x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: y\rz\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X : y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n folded\r\n\r\n", 400),
        (b"GET /\xe9 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\n"
            + HOST
            + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (b"POST /only HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST /only HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Expect: wonders\r\n\r\n", 417),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"y" * 70_000, 414),
        (b"CONNECT x:1 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (b"\x16\x03\x01\x02\x00", 400),
        (b"GET /elsewhere HTTP/1.1\r\n" + HOST + b"\r\n", 404),
    ],
)
def test_what_is_refused_has_its_status(stage: Stage, data: bytes, status: int) -> None:
    front = stage.own_front(path="/only")
    assert status_of(front.port, data) == status


def test_without_a_handler_a_client_is_told_and_does_not_hang(stage: Stage) -> None:
    front = stage.own_front("--queue-timeout", "300ms", "--queue-limit", "1")
    with Client(front.port) as first, Client(front.port) as second:
        began = time.monotonic()
        first.send_request("GET", "/1")
        wait_for("the queue to be full", lambda: second.get("/2").header("Retry-After"), 5)
        response = first.response("GET")
        assert (response.status, response.header("Retry-After")) == (503, "1")
        assert 0.25 < time.monotonic() - began < 5
        # Both connections live on: no handler has heard of them.
        with OwnHandler(front, echo):
            assert first.get("/3").body == b"/3 "
            assert second.get("/4").body == b"/4 "


def test_pipelined_requests_are_passed_on_one_at_a_time(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front) as handler, Client(front.port) as client:
        client.send(request("GET", "/1") + request("GET", "/2") + request("GET", "/3"))
        for path in ("/1", "/2", "/3"):
            message = handler.next()
            assert message.path == path
            assert handler.poll(0.05) is None, "the next one came before the answer"
            handler.ok(message, path.encode())
            assert client.response("GET").body == path.encode()


def test_a_broken_response_is_a_502_and_never_part_of_the_next(stage: Stage) -> None:
    front = stage.own_front()

    def answer(handler: OwnHandler, message: Message) -> None:
        if message.path == "/broken":
            handler.reply(message, b"HTTP/1.1 200 OK\nX: y\n\nhello")
        elif message.path == "/excess":
            handler.reply(message, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 ")
        elif message.path == "/short":
            handler.reply(message, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
            time.sleep(0.1)
            handler.reply(message, b"")
        elif message.path == "/nothing":
            handler.reply(message, b"")
        else:
            echo(handler, message)

    with OwnHandler(front, answer):
        for target in ("/broken", "/nothing"):
            with Client(front.port) as client:
                response = client.get(target)
                assert (response.status, response.header("Connection")) == (502, "close")
                client.assert_closed()
        with Client(front.port) as client:
            assert client.get("/excess").body == b"ok"
            client.assert_closed()
        # What has gone out cannot be taken back; the client sees that it is cut. Else it is told.
        data = exchange(front.port, request("GET", "/short"))
        assert data.endswith(b"\r\n\r\nok") or data.startswith(b"HTTP/1.1 502 ")


def test_half_closed_and_old_clients_get_their_response(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front, echo):
        with Client(front.port) as client:
            client.send_request("GET", "/half")
            client.socket.shutdown(socket.SHUT_WR)
            assert client.response("GET").body == b"/half "
            client.assert_closed()
        data = exchange(front.port, b"GET /old HTTP/1.0\r\n\r\n")
        assert data.endswith(b"\r\nConnection: close\r\n\r\n/old ")
        with Client(front.port) as client:
            client.send(b"GET http://other/abs HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.response("GET").body == b"/abs "
            client.send(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = client.response("OPTIONS")
            # RFC 9110 section 6.6.1: who has a clock says the date.
            assert (answer.status, len(answer.header("Date") or "")) == (200, 29)


def test_bodies_in_chunks_and_with_leave_arrive_whole(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front, echo) as handler, Client(front.port) as client:
        head = b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        client.send(head + b"Expect: 100-continue\r\n\r\n")
        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        client.send(b"5\r\nhello\r\n1\r\n!\r\n0\r\nX: trailer\r\n\r\n")
        assert client.response("POST").body == b"/c hello!"
        headers = handler.messages[0].keys
        assert headers["content-length"] == "6"
        assert "transfer-encoding" not in headers


def test_forged_fields_reach_no_handler(stage: Stage) -> None:
    front = stage.own_front()
    forged = [
        ("X-Mongrel2-Upload-Start", "/etc/passwd"),
        ("X-Mongrel2-Upload-Done", "/etc/passwd"),
        ("X_Forwarded_For", "6.6.6.6"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Proto", "https"),
        ("Forwarded", "for=6.6.6.6"),
        ("REMOTE-ADDR", "6.6.6.6"),
        ("X-Latin", "caf\xe9"),
    ]
    with OwnHandler(front, echo) as handler, Client(front.port) as client:
        client.get("/", forged)
        headers = handler.messages[0].keys
        assert headers["x-forwarded-for"] == headers["REMOTE_ADDR"] == "127.0.0.1"
        assert headers["x-latin"] == "caf\xe9"
        names = {name for name in headers if name.islower()}
        assert names == {"host", "x-forwarded-for", "remote-addr", "x-latin"}


def test_a_large_body_goes_into_a_file_that_its_handler_removes(
    stage: Stage, tmp_path: Path
) -> None:
    uploads = tmp_path / "up"
    uploads.mkdir()
    words = ["--upload", "files", "--upload-dir", str(uploads), "--inline-limit", "1K"]
    front = stage.own_front(*words, "--max-body", "1M")
    body = os.urandom(300_000)
    with OwnHandler(front) as handler, Client(front.port) as client:
        for chunked in (False, True):
            if chunked:
                head = b"POST /u HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                client.send(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            else:
                client.send_request("POST", "/u", body=body)
            start, done = handler.next(), handler.next()
            assert "x-mongrel2-upload-done" not in start.keys
            name = str(start.keys["x-mongrel2-upload-start"])
            assert done.keys["x-mongrel2-upload-done"] == name
            path = Path(name)
            assert path.parent == uploads
            assert path.read_bytes() == body
            path.unlink()
            handler.ok(done, b"ok")
            assert client.response("POST").body == b"ok"
        # Whoever goes away half-way leaves nothing.
        with Client(front.port) as other:
            other.send(b"POST /u HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + b"x" * 2000)
            assert handler.next().keys["x-mongrel2-upload-start"]
            assert len(list(uploads.iterdir())) == 1
        assert handler.next().event == "disconnect"
        wait_for("the file to be removed", lambda: not list(uploads.iterdir()))
        assert status_of(front.port, request("POST", "/u", [("Content-Length", "1048577")])) == 413


def test_a_large_body_comes_in_parts_as_the_handler_asks(stage: Stage) -> None:
    front = stage.own_front("--upload", "stream", "--inline-limit", "1K")
    body = os.urandom(200_000)
    with OwnHandler(front) as handler, Client(front.port) as client:
        client.send_request("POST", "/u", body=body)
        first = handler.next()
        assert first.keys["UPLOAD_STREAM"] == "0"
        assert len(first.body) <= 1024
        assert handler.poll(0.05) is None, "a part came before it was asked for"
        got = first.body
        while True:
            handler.control(first, b"28:3:ctl,18:7:credits,5:30000#}]")
            part = handler.next()
            assert part.keys["UPLOAD_STREAM"] == str(len(got))
            got += part.body
            if part.keys.get("UPLOAD_STREAM_DONE") == "1":
                break
        assert got == body
        handler.ok(first, b"ok")
        assert client.response("POST").body == b"ok"


def test_who_asks_for_nothing_of_a_stream_is_doubted_once(stage: Stage) -> None:
    front = stage.own_front("--inline-limit", "1K")
    with OwnHandler(front, echo) as handler:
        for _ in range(2):
            with Client(front.port) as client:
                response = client.ask("POST", "/u", body=b"x" * 5000)
                first = handler.messages[0]
                assert response.body == b"/u " + first.body
                assert first.keys["UPLOAD_STREAM"] == "0"
                assert len(first.body) <= 1024
    front.process.wait_for_err_count("if it knows no streams, use --upload files or refuse", 1)
    refusing = stage.own_front("--upload", "refuse", "--inline-limit", "1K", name="g")
    assert status_of(refusing.port, request("POST", "/u", body=b"x" * 5000)) == 413


def test_an_instance_takes_a_large_body_as_a_stream(stage: Stage) -> None:
    front = stage.own_front()
    stage.lurcher(*front.options)
    body = os.urandom(3_000_000)
    with Client(front.port) as client:
        told = client.ask("POST", "/echo", body=body)
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.send(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        chunked = client.response("POST")
        for response in (told, chunked):
            assert response.status == 200
            assert response.body == body


def test_credits_come_as_a_client_reads_and_a_flood_cuts_it_off(stage: Stage) -> None:
    front = stage.own_front("--client-window", "100K", "--reply-limit", "2M")
    with OwnHandler(front) as handler, Client(front.port, receive_buffer=4096) as client:
        client.send_request("GET", "/")
        message = handler.next()
        assert message.keys["DOWNLOAD_CREDITS"] == "102400"
        handler.reply(message, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        sent, free, asked = 0, 102_400, 0
        received = b""
        while sent < 1_000_000:
            while free >= 20_000 and sent < 1_000_000:
                handler.reply(message, b"x" * 20_000)
                sent, free = sent + 20_000, free - 20_000
            while len(received) < sent - 50_000:
                received += client.socket.recv(65_536)
            if sent < 1_000_000:
                event = handler.next()
                free += int(str(event.keys["DOWNLOAD_CREDITS"]))
                asked += 1
        assert 5 < asked < 60
    with OwnHandler(front) as handler, Client(front.port, receive_buffer=4096) as client:
        client.send_request("GET", "/")
        message = handler.next()
        while message.path == "@*":
            message = handler.next()
        handler.reply(message, b"HTTP/1.1 200 OK\r\nContent-Length: 99000000\r\n\r\n")
        for _ in range(20):
            handler.reply(message, b"x" * 500_000)
        # Only then it reads: on a slow machine it could else keep up with the flood.
        front.process.wait_for_err("beyond --reply-limit")
        with pytest.raises(ClosedError):
            client.exactly(99_000_000)


def test_a_dead_handler_costs_what_it_had_and_at_once(stage: Stage) -> None:
    front = stage.own_front()
    lurcher = stage.lurcher(*front.options, "--threads", "1")
    with Client(front.port) as busy, Client(front.port) as idle:
        assert idle.get("/number/1").status == 200
        busy.send_request("GET", "/number/2?ms=60000")
        wait_for("the request to begin", lambda: any("begun 2 " in x for x in stage.record()))
        began = time.monotonic()
        for pid in lurcher.processes():
            os.kill(pid, signal.SIGKILL)
        response = busy.response("GET")
        assert response.status == 502
        assert time.monotonic() - began < 3
        lurcher.wait_exit()
        stage.lurchers.remove(lurcher)
        stage.lurcher(*front.options)
        assert idle.get("/number/3").body.endswith(b"3")


def test_what_may_be_repeated_is_repeated_once(stage: Stage) -> None:
    front = stage.own_front("--retry", "idempotent")
    first = OwnHandler(front)
    with Client(front.port) as get, Client(front.port) as post:
        get.send_request("GET", "/get")
        post.send_request("POST", "/post", body=b"x")
        assert {first.next().path, first.next().path} == {"/get", "/post"}
        first.close()
        assert post.response("POST").status == 502
        with OwnHandler(front, echo):
            assert get.response("GET").body == b"/get "


def test_an_instance_that_leaves_loses_nothing(stage: Stage) -> None:
    front = stage.own_front()
    stage.lurcher(*front.options)
    front.wait_for_handlers(1)
    load = Load(front.port, clients=16).start()
    try:
        for count in range(2, 5):
            other = stage.lurcher(*front.options)
            front.wait_for_handlers(count)
            load.wait_for_more(200)
            assert other.stop() == 0
    finally:
        outcomes = load.stop()
    assert {outcome.what for outcome in outcomes} == {"ok"}
    assert len(outcomes) > 600


def test_it_stops_when_all_is_answered(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front) as handler, Client(front.port) as busy, Client(front.port) as idle:
        idle.send_request("GET", "/1")
        handler.ok(handler.next(), b"1")
        assert idle.response("GET").status == 200
        busy.send_request("GET", "/2")
        message = handler.next()
        front.process.send_signal(signal.SIGTERM)
        idle.assert_closed()
        with pytest.raises(ConnectionRefusedError):
            Client(front.port)
        handler.ok(message, b"2")
        response = busy.response("GET")
        assert (response.body, response.header("Connection")) == (b"2", "close")
        assert front.process.wait_exit() == 0


def test_slow_heads_and_idle_connections_end_in_time(stage: Stage) -> None:
    front = stage.own_front("--head-timeout", "300ms", "--idle-timeout", "300ms")
    with OwnHandler(front, echo):
        with Client(front.port) as slow:
            slow.send(b"GET / HTTP/1.1\r\nHo")
            assert slow.response("GET").status == 408
        with Client(front.port) as idle:
            assert idle.get("/").status == 200
            # As some clients do after a body: it begins no head.
            idle.send(b"\r\n")
            idle.assert_closed()


def test_late_answers_are_504_and_reach_nobody(stage: Stage) -> None:
    front = stage.own_front("--response-timeout", "300ms")
    with OwnHandler(front) as handler, Client(front.port) as client:
        client.send_request("GET", "/")
        message = handler.next()
        assert client.response("GET").status == 504
        client.assert_closed()
        assert handler.next().event == "disconnect"
        handler.ok(message, b"late")
        assert handler.next().event == "disconnect"


def test_unix_sockets_and_the_access_log(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "http"
    log = tmp_path / "access.log"
    front = stage.own_front("--bind", f"unix:{path}", "--access-log", str(log))
    with OwnHandler(front, echo), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.sendall(b"GET /x HTTP/1.0\r\nUser-Agent: me\r\n\r\n")
        data = b""
        while piece := client.recv(4096):
            data += piece
        assert data.endswith(b"/x ")
    line = wait_for("the access line", lambda: log.read_text() if log.exists() else "", 5)
    assert '"GET /x HTTP/1.0" 200 3 "-" "me"' in line
    front.process.stop()
    assert not path.exists()


def test_sockets_of_systemd_and_of_ipv6(stage: Stage, tmp_path: Path) -> None:
    front = stage.own_front("--bind", "[::1]:0")
    said = front.process.wait_for_err("listening at [::1]:")
    port = int(re.findall(r"listening at \[::1\]:(\d+)", said)[0])
    with OwnHandler(front, echo) as handler:
        with Client(port, host="::1", family=socket.AF_INET6) as client:
            assert client.get("/six").body == b"/six "
        assert handler.messages[0].keys["REMOTE_ADDR"] == "::1"
    with socket.socket() as handed:
        handed.bind(("127.0.0.1", 0))
        handed.listen()
        os.set_inheritable(handed.fileno(), True)
        # As systemd does it: the socket is descriptor 3, and the variables name the process.
        script = f"""
            exec 3<&{handed.fileno()}
            LISTEN_PID=$$ LISTEN_FDS=1 exec {COMMAND} front --bind systemd \\
                --route /=ipc://{tmp_path}/s,ipc://{tmp_path}/r
        """
        process = subprocess.Popen(
            ["bash", "-c", script], pass_fds=[handed.fileno()], stderr=subprocess.PIPE
        )
        try:
            with Client(handed.getsockname()[1]) as client:
                client.send(b"nonsense\r\n\r\n")
                assert client.response("GET").status == 400
        finally:
            process.terminate()
            assert process.stderr is not None
            process.stderr.close()
            assert process.wait(10) == 0


def test_the_command_line_says_what_is_wrong(stage: Stage, tmp_path: Path) -> None:
    missing = stage.command("front", "--bind", "nowhere", "--peer-window", "0")
    assert missing.returncode == 64
    said = missing.stderr.splitlines()
    assert any(line.startswith("lurcher: --route is missing") for line in said)
    assert any("--bind:" in line and "is no address to listen at" in line for line in said)
    assert any("--peer-window:" in line for line in said)
    assert any("for example: lurcher front --route" in line for line in said)
    route = f"/=ipc://{tmp_path}/s,ipc://{tmp_path}/r"
    twice = stage.command("front", "--route", route, "--route", route, "--upload", "files")
    assert "is given twice" in twice.stderr
    assert "--upload-dir: is needed by --upload files" in twice.stderr
    (tmp_path / "lurcher.toml").write_text(
        f"wsgi-app = 'x:y'\n[front]\nroute = ['{route}']\nretry = 'idempotent'\n"
    )
    shown = stage.command("front", "--print-config", "--head-limit", "8K")
    assert shown.returncode == 0, shown.stderr
    settings = [line.split("#")[0].strip() for line in shown.stdout.splitlines()]
    assert 'retry = "idempotent"' in settings
    assert 'head-limit = "8K"' in settings
    assert 'bind = ["127.0.0.1:8000"]' in settings
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = stage.command("front", "--bind", at)
        assert refused.returncode == 73
        assert f"cannot listen at {at}" in refused.stderr


def test_an_interim_response_is_not_the_response(stage: Stage) -> None:
    """After 100 or 103 a client still learns that no response will come, and within its time."""
    uploads = stage.directory / "uploads"
    uploads.mkdir()
    front = stage.own_front(
        "--response-timeout", "500ms", "--upload", "files", "--upload-dir", str(uploads)
    )
    with OwnHandler(front) as handler, Client(front.port) as one, Client(front.port) as two:
        one.send(b"PUT / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\n")
        one.send(b"Content-Length: 2000000\r\n\r\n")
        assert one.head()[1] == 100
        one.send(b"x" * 2_000_000)
        handler.next()
        two.send_request("GET", "/")
        message = next(m for m in iter(handler.next, None) if m.keys["METHOD"] == "GET")
        handler.reply(message, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        assert two.head()[1] == 103
        for client in (one, two):
            assert client.response().status == 504
            client.assert_closed()
        assert not list(uploads.iterdir())


def test_bytes_that_nobody_asked_for_answer_nothing(stage: Stage) -> None:
    front = stage.own_front()
    with OwnHandler(front) as handler, Client(front.port) as client:
        client.send_request("GET", "/a")
        message = handler.next()
        handler.ok(message, b"a")
        assert client.response().body == b"a"
        handler.ok(message, b"more of it")
        front.process.wait_for_err("nobody had asked for")
        client.send_request("GET", "/b")
        client.assert_closed()


def test_a_body_in_chunks_has_the_limit_of_others(stage: Stage) -> None:
    front = stage.own_front("--max-body", "1000")
    chunks = b"800\r\n" + b"x" * 2048 + b"\r\n0\r\n\r\n"
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    assert status_of(front.port, head + chunks) == 413


def test_a_slow_body_does_not_shorten_the_wait_for_a_handler(stage: Stage) -> None:
    front = stage.own_front("--queue-timeout", "1s", "--peer-window", "1")
    with OwnHandler(front) as handler, Client(front.port) as slow, Client(front.port) as quick:
        slow.send(b"POST /slow HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\na")
        time.sleep(1.1)
        quick.send_request("GET", "/quick")
        first = handler.next()
        slow.send(b"b")
        # Long enough for the clock to be looked at.
        time.sleep(0.3)
        handler.ok(first, b"")
        second = handler.next()
        assert second.path == "/slow"
        handler.ok(second, b"")
        assert slow.response().status == 200


def test_a_handler_that_stops_reading_gets_no_more(stage: Stage) -> None:
    """It would else be given all that comes, and all memory with it."""
    front = stage.own_front("--queue-timeout", "200ms", "--queue-limit", "10")
    with RawPeer(front.recv_spec, "XPUB") as publishes, RawPeer(front.send_spec, "PULL"):
        publishes.command(b"\x04PONG")
        front.wait_for_handlers(1)
        before = memory_of(front.process.pid)
        for _ in range(800):
            with Client(front.port) as client:
                client.send_request("POST", "/", body=b"x" * 1_000_000)
        # A quarter of it: the bodies of clients that are there at the same time are each in memory.
        assert memory_of(front.process.pid) - before < 200_000
        with Client(front.port) as client:
            assert client.get("/").status == 503


def memory_of(pid: int) -> int:
    """Kilobytes."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def test_refused_clients_count_while_they_are_read_from(stage: Stage) -> None:
    front = stage.own_front("--max-connections", "20")
    clients = [Client(front.port) for _ in range(100)]
    for client in clients:
        client.send(b"\x16\x03\x01\x02\x00")
    front.process.wait_for_err("speaks TLS")
    most = len(os.listdir(f"/proc/{front.process.pid}/fd"))
    assert most < 60
    for client in clients:
        assert client.rest().startswith(b"HTTP/1.1 400 ")
        client.close()


def test_without_descriptors_it_waits_and_does_not_fill_the_log(stage: Stage) -> None:
    front = stage.own_front()
    resource.prlimit(front.process.pid, resource.RLIMIT_NOFILE, (40, 40))
    clients = [Client(front.port) for _ in range(60)]
    front.process.wait_for_err("cannot accept a connection: ")
    time.sleep(0.5)
    assert front.process.err().count("cannot accept") <= 3
    for client in clients:
        client.close()
    with OwnHandler(front, echo):
        assert get(front.port, "/").status == 200


def test_a_full_disk_is_not_the_clients_fault(stage: Stage) -> None:
    uploads = stage.directory / "uploads"
    uploads.mkdir()
    front = stage.own_front("--upload", "files", "--upload-dir", str(uploads))
    resource.prlimit(front.process.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with OwnHandler(front), Client(front.port) as client:
        client.send(b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 3000000\r\n\r\n")
        client.send(b"x" * 3_000_000)
        assert client.response().status == 500
        assert "upload file: " in front.process.err()
        assert not list(uploads.iterdir())


def test_a_front_end_that_ends_leaves_its_successors_socket(stage: Stage) -> None:
    path = stage.directory / "http"
    first = stage.own_front("--bind", f"unix:{path}", name="first")
    with OwnHandler(first) as handler, Client(first.port) as client:
        client.send_request("GET", "/")
        message = handler.next()
        first.process.send_signal(signal.SIGTERM)
        first.process.wait_for_err("stopping")
        stage.own_front("--bind", f"unix:{path}", name="second")
        handler.ok(message, b"")
        assert client.response().status == 200
        assert first.process.wait_exit() == 0
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))


def test_nobody_can_have_the_front_end_for_himself(stage: Stage) -> None:
    """One client that never stops asking, one that uploads, and a handler that sends to nobody."""
    uploads = stage.directory / "uploads"
    uploads.mkdir()
    words = ("--upload", "files", "--upload-dir", str(uploads), "--max-body", "100G")
    front = stage.own_front(*words, path="/api")
    flood = b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n"
    large = b"PUT /api/large HTTP/1.1\r\n" + HOST + b"Content-Length: 50000000000\r\n\r\n"

    def quick(handler: OwnHandler, message: Message) -> None:
        if message.path == "/api":
            handler.ok(message, b"here")

    with OwnHandler(front, quick) as handler, Client(front.port) as client:
        sends = [
            subprocess.Popen([sys.executable, "-c", code, *words])
            for code, words in (
                (ENDLESS_CLIENT, [str(front.port), flood.hex(), ""]),
                (ENDLESS_CLIENT, [str(front.port), "00" * 1024, large.hex()]),
                (ENDLESS_PUBLISHER, [front.recv_spec, handler.topics[0]]),
            )
        ]
        try:
            wait_for("the upload", lambda: any(f.stat().st_size for f in uploads.iterdir()))
            wait_for("a publisher", lambda: [m for m in handler.messages if m.event])
            for _ in range(10):
                began = time.monotonic()
                assert client.get("/api").body == b"here"
                assert time.monotonic() - began < 3
        finally:
            for process in sends:
                process.kill()
                process.wait()
        # What it sent to nobody is answered once a second, and not each time.
        events = [message.conn for message in handler.messages if message.event]
        assert events.count(2147483646) < 60


ENDLESS_CLIENT = """
import socket, sys, threading
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
client.sendall(bytes.fromhex(sys.argv[3]))
def read():
    while client.recv(1 << 20):
        pass
threading.Thread(target=read, daemon=True).start()
data = bytes.fromhex(sys.argv[2]) * 1000
while True:
    client.sendall(data)
"""

ENDLESS_PUBLISHER = """
import sys, zmq
socket = zmq.Context().socket(zmq.XPUB)
socket.setsockopt(zmq.XPUB_NODROP, 1)
socket.connect(sys.argv[1])
socket.recv()
while True:
    socket.send(b"%s 10:2147483646, x" % sys.argv[2].encode())
"""


def test_leave_to_send_a_body_is_no_part_of_the_response(stage: Stage) -> None:
    front = stage.own_front("--upload", "stream", "--inline-limit", "1K")
    with OwnHandler(front) as handler, Client(front.port) as client:
        front.wait_for_handlers(1)
        client.send(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5000\r\n")
        client.send(b"Expect: 100-continue\r\n\r\n")
        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        assert handler.next().keys["UPLOAD_STREAM"] == "0"
        handler.close()
        assert client.response().status == 502


def test_no_page_for_a_head_that_is_refused(stage: Stage) -> None:
    front = stage.own_front("--max-body", "1K")
    answer = exchange(front.port, b"HEAD / HTTP/1.1\r\n" + HOST + b"Content-Length: 2000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b"\r\n\r\n")
