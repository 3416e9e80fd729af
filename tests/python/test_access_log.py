"""The access log: one line for each request, which no client can forge."""

from __future__ import annotations

import json
import re

from support.handler import Message
from support.own import OwnHandler, echo
from support.rawhttp import Client, get
from support.stage import Stage
from support.waiting import wait_for

LINE = re.compile(
    r"(?P<addr>\S+) - (?P<user>\S+) \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<size>\d+|-) '
    r'"(?P<referer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)" (?P<seconds>\d+\.\d{6})'
)


def parse(text: str) -> list[re.Match[str]]:
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, f"no access line: {line!r}"
        found.append(match)
    return found


def test_one_line_for_each_request(stage: Stage, protocol: str) -> None:
    front = stage.mongrel2(protocol)
    log = stage.directory / "access.log"
    lurcher = stage.lurcher(*front.options, "--access-log", str(log))
    get(front.port, "/number/123?ms=50", [("User-Agent", "probe/1"), ("Referer", "http://a/b")])
    get(front.port, "/status?code=404")
    get(front.port, "/raise")
    with Client(front.port) as client:
        client.ask("HEAD", "/number/5")
        client.ask("POST", "/echo", body=b"x" * 1000, version="HTTP/1.0")
    get(front.port, "/stream?count=3&size=10")
    wait_for("six lines", lambda: log.exists() and log.read_text().count("\n") == 6)
    lines = parse(log.read_text())
    assert [(m["request"], m["status"]) for m in lines] == [
        ("GET /number/123?ms=50 HTTP/1.1", "200"),
        ("GET /status?code=404 HTTP/1.1", "404"),
        ("GET /raise HTTP/1.1", "500"),
        ("HEAD /number/5 HTTP/1.1", "200"),
        ("POST /echo HTTP/1.0", "200"),
        ("GET /stream?count=3&size=10 HTTP/1.1", "200"),
    ]
    first = lines[0]
    assert first["addr"] == "127.0.0.1"
    assert (first["agent"], first["referer"], first["size"]) == ("probe/1", "http://a/b", "3")
    assert 0.05 <= float(first["seconds"]) < 5
    assert [m["size"] for m in lines][3:] == ["0", "1000", "30"] or lines[3]["size"] == "-"
    assert lurcher.out() == ""


def test_a_dash_means_stdout(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, "--access-log", "-")
    get(front.port, "/number/1")
    wait_for("the line", lambda: lurcher.out().endswith("\n"))
    assert len(parse(lurcher.out())) == 1


def test_nobody_can_forge_a_line(stage: Stage, protocol: str) -> None:
    front = stage.mongrel2(protocol)
    log = stage.directory / "access.log"
    stage.lurcher(*front.options, "--access-log", str(log))
    forged = '" 200 5 "-" "-" 0.1'
    agents = [
        forged.encode(),
        b'quote " backslash \\ tab \t end',
        b"escape \x1b[31m bell \x07 vertical \x0b form \x0c",
        b"latin caf\xe9 utf caf\xc3\xa9 broken \x80\xff next \xc2\x85 line \xe2\x80\xa8 end",
    ]
    for agent in agents:
        with Client(front.port) as client:
            client.send(
                b"GET /number/1?a=%0a%0d%22 HTTP/1.1\r\nHost: localhost\r\n"
                b"User-Agent: " + agent + b"\r\nReferer: " + agent + b"\r\n\r\n"
            )
            client.response()
    wait_for("the lines", lambda: log.exists() and log.read_bytes().count(b"\n") >= len(agents))
    raw = log.read_bytes()
    assert raw.isascii(), raw
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", raw), raw
    lines = parse(raw.decode())
    assert len(lines) == len(agents)
    for line in lines:
        assert line["request"] == "GET /number/1?a=%0a%0d%22 HTTP/1.1"
        assert line["status"] == "200" or line["status"] == "400"


def test_requests_that_no_worker_answered_are_logged_too(stage: Stage) -> None:
    front = stage.mongrel2()
    log = stage.directory / "access.log"
    stage.lurcher(*front.options, "--access-log", str(log))
    assert get(front.port, "/die").status == 502
    wait_for("the line", lambda: log.exists() and b" 502 " in log.read_bytes())
    (line,) = parse(log.read_text())
    assert line["request"] == "GET /die HTTP/1.1"


def test_json_lines_tell_how_each_request_ended(stage: Stage, protocol: str) -> None:
    front = stage.mongrel2(protocol)
    log = stage.directory / "access.log"
    stage.lurcher(*front.options, "--access-log", str(log), "--access-log-format", "json")
    get(front.port, "/number/123?ms=50", [("User-Agent", 'a"\\\xe9\t'), ("Referer", "http://a/b")])
    get(front.port, "/raise")
    get(front.port, "/status?code=404")
    with Client(front.port) as client:
        client.send_request("GET", "/number/7?ms=600")
    get(front.port, "/number/8?ms=900")
    wait_for("five lines", lambda: log.exists() and log.read_text().count("\n") == 5)
    lines = {line["path"]: line for line in map(json.loads, log.read_text().splitlines())}
    first = lines["/number/123"]
    assert (first["method"], first["query"], first["protocol"]) == ("GET", "ms=50", "HTTP/1.1")
    assert (first["remote"], first["status"], first["bytes"]) == ("127.0.0.1", 200, 3)
    assert (first["referer"], first["outcome"], first["worker"]) == ("http://a/b", "ok", 1)
    assert 'a"\\' in first["user_agent"]
    assert 0.05 <= first["application_time"] <= first["total_time"] < 10
    assert 0 <= first["queue_time"] < 10
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert (lines["/raise"]["status"], lines["/raise"]["outcome"]) == (500, "application_error")
    assert (lines["/status"]["status"], lines["/status"]["outcome"]) == (404, "ok")
    assert lines["/number/7"]["outcome"] == "client_gone"
    assert lines["/number/8"]["outcome"] == "ok"


def test_a_front_end_tells_how_each_request_ended(stage: Stage) -> None:
    front = stage.own_front(
        *("--access-log", "log", "--access-log-format", "json"),
        *("--response-timeout", "1s"),
        path="/a",
    )
    log = stage.directory / "f" / "log"

    def answer(handler: OwnHandler, message: Message) -> None:
        if message.path == "/a/broken":
            handler.reply(message, b"nonsense\r\n\r\n")
        elif message.path in ("/a/slow", "/a/cut"):
            handler.reply(message, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nno")
        elif message.path in ("/a/rest", "/a/end"):
            rest = b"!!" if message.path == "/a/rest" else b""
            before = [other for other in handler.messages if other.path in ("/a/slow", "/a/cut")]
            handler.reply(before[-1], rest)
            echo(handler, message)
        elif not message.path.startswith("/a/silent"):
            echo(handler, message)

    def lines() -> dict[str, dict[str, object]]:
        return {line["path"]: line for line in map(json.loads, log.read_text().splitlines())}

    with OwnHandler(front, answer) as handler:
        front.wait_for_handlers(1)
        get(front.port, "/a/ok?b=c", [("User-Agent", 'a"\\\xe9\t'), ("Referer", "http://a/b")])
        assert get(front.port, "/other").status == 404
        assert get(front.port, "/a/broken").status == 502
        assert get(front.port, "/a/silent").status == 504
        with Client(front.port) as client:
            client.send_request("GET", "/a/slow")
            client.until(b"no")
            assert get(front.port, "/a/rest").status == 200
            assert client.exactly(2) == b"!!"
        with Client(front.port) as client:
            client.send_request("GET", "/a/cut")
            client.until(b"no")
            assert get(front.port, "/a/end").status == 200
            client.assert_closed()
        with Client(front.port) as client:
            client.send_request("GET", "/a/silent/gone")
            wait_for("it", lambda: handler.messages[-1].path == "/a/silent/gone")
            client.reset()
    wait_for("all lines", lambda: log.exists() and log.read_text().count("\n") == 9)
    told = lines()
    ok = told["/a/ok"]
    assert (ok["method"], ok["query"], ok["protocol"]) == ("GET", "b=c", "HTTP/1.1")
    assert (ok["remote"], ok["status"], ok["bytes"], ok["route"]) == ("127.0.0.1", 200, 6, "/a")
    assert (ok["referer"], ok["outcome"]) == ("http://a/b", "ok")
    assert re.fullmatch("[0-9a-f]{32}", str(ok["request_id"]))
    assert not {"worker", "queue_time", "application_time"} & set(ok)
    slow = told["/a/slow"]
    assert (slow["outcome"], slow["bytes"]) == ("ok", 4)
    assert isinstance(slow["first_byte_time"], float)
    assert isinstance(slow["total_time"], float)
    assert 0 < slow["first_byte_time"] < slow["total_time"] < 10
    other = told["/other"]
    assert (other["route"], other["status"], other["outcome"]) == (None, 404, "refused")
    silent = told["/a/silent"]
    assert (silent["status"], silent["outcome"]) == (504, "timed_out")
    broken = told["/a/broken"]
    assert (broken["status"], broken["outcome"]) == (502, "broken_response")
    cut = told["/a/cut"]
    assert (cut["status"], cut["bytes"], cut["outcome"]) == (200, 2, "cut")
    gone = told["/a/silent/gone"]
    assert (gone["status"], gone["bytes"], gone["outcome"]) == (None, None, "client_gone")
    assert gone["first_byte_time"] is None
