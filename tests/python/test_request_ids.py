"""Request ids: one name for a request in the environ, the response and the logs."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any

from support.handler import Message
from support.own import OwnHandler
from support.process import APPS
from support.rawhttp import Client, Response, get, request
from support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from support.stage import Stage

MADE = re.compile(r"[0-9a-f]{32}")
APP = "names:application"


def lines(log: Path, count: int) -> list[dict[str, Any]]:
    wait_for(f"{count} lines", lambda: log.exists() and log.read_text().count("\n") == count)
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_one_name_wherever_a_request_is_told_of(stage: Stage) -> None:
    front = stage.mongrel2()
    log = stage.directory / "access.log"
    lurcher = stage.lurcher(
        *front.options,
        *("--request-id-header", "X-Request-ID", "--request-timeout", "500ms"),
        *("--access-log", str(log), "--access-log-format", "json", "--max-body", "1000"),
        app=APP,
    )

    def ask(path: str, *said: str) -> tuple[Response, str]:
        answer = get(front.port, path, [("X-Request-ID", value) for value in said])
        (told,) = answer.all("X-Request-ID")
        return answer, told

    answer, told = ask("/", "abc-1/{2}")
    assert (told, answer.body) == ("abc-1/{2}", b"abc-1/{2} abc-1/{2}")
    for refused in ["a b", 'a"', "a\\", "\xe9", "x" * 129]:
        answer, told = ask("/", refused)
        assert MADE.fullmatch(told), told
        assert answer.body == f"{told} {told}".encode()
    answer, told = ask("/own", "theirs")
    assert (told, answer.body) == ("mine", b"theirs theirs")

    failed, failing = ask("/raise")
    assert (failed.status, len(failing)) == (500, 32)
    lurcher.wait_for_err(f"error in the application: GET /raise (request {failing})")
    late, slow = ask("/sleep")
    assert (late.status, len(slow)) == (504, 32)
    lurcher.wait_for_err(f"GET /sleep (ticket #{int(slow[16:], 16)}, request {slow}, thread ")
    lost, dying = ask("/die", "dying")
    assert (lost.status, dying) == (502, "dying")
    with Client(front.port) as client:
        client.send_request("POST", "/", [("X-Request-ID", "large")], b"x" * 1001)
        large = client.response()
    assert (large.status, large.header("X-Request-ID")) == (413, "large")
    logged = {(line["path"], line["status"]): line["request_id"] for line in lines(log, 11)}
    assert logged["/own", 200] == "theirs"
    assert logged["/raise", 500] == failing
    assert logged["/sleep", 504] == slow
    assert logged["/die", 502] == "dying"
    assert logged["/", 413] == "large"


def test_ids_are_made_without_the_option_and_no_two_are_the_same(stage: Stage) -> None:
    front = stage.mongrel2()
    log = stage.directory / "access.log"
    words = ["--access-log", str(log), "--access-log-format", "json", "--workers", "2"]
    stage.lurcher(*front.options, *words, app=APP)
    ids = set()
    with Client(front.port) as client:
        for _ in range(1000):
            answer = client.get("/", [("X-Request-ID", "said")])
            assert answer.header("X-Request-ID") is None
            made, said = answer.body.decode().split()
            assert (MADE.fullmatch(made) is not None, said) == (True, "said")
            ids.add(made)
    assert len(ids) == 1000
    assert {line["request_id"] for line in lines(log, 1000)} == ids


def test_a_front_end_names_requests(stage: Stage, protocol: str) -> None:
    words = ["--request-id-header", "X-Request-ID", "--trust-forwarded-from", "127.0.0.2"]
    words += ["--access-log", "log", "--access-log-format", "json", "--protocol", protocol]
    front = stage.own_front(*words, path="/a")

    def answer(handler: OwnHandler, message: Message) -> None:
        own = b"x-request-id: mine\r\n" if message.path == "/a/own" else b""
        handler.reply(message, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + own + b"\r\n")

    def ask(source: str, path: str, *said: str) -> str:
        with socket.create_connection(
            ("127.0.0.1", front.port), 20, source_address=(source, 0)
        ) as raw:
            raw.sendall(request("GET", path, [("x-request-ID", value) for value in said]))
            head = b""
            while b"\r\n\r\n" not in head:
                head += raw.recv(4096)
        [told] = re.findall(rb"(?i)\r\nX-Request-ID: ([^\r]*)\r\n", head)
        return str(told.decode())

    with OwnHandler(front, answer) as handler:
        front.wait_for_handlers(1)
        made = [ask("127.0.0.1", "/a"), ask("127.0.0.1", "/a", "theirs"), ask("127.0.0.2", "/a")]
        for bad in ["a b", 'a"', "\xe9", "x" * 129]:
            made.append(ask("127.0.0.2", "/a", bad))
        assert all(MADE.fullmatch(name) for name in made), made
        assert len(set(made)) == len(made)
        assert ask("127.0.0.2", "/a", "first", "second") == "first"
        assert ask("127.0.0.2", "/a/own", "said") == "mine"
        names = [m.keys["x-request-id"] for m in handler.messages if m.event is None]
        assert names == [*made, "first", "said"]
        assert ask("127.0.0.2", "/other", "lost") == "lost"
    told = lines(stage.directory / "f" / "log", len(made) + 3)
    assert [line["request_id"] for line in told] == [*made, "first", "said", "lost"]
    with Client(front.port) as client:
        client.send(b"nonsense\r\n\r\n")
        answered = client.response()
    assert answered.status == 400
    assert MADE.fullmatch(answered.header("X-Request-ID") or "")


def test_one_name_for_all_that_serve_has_started(stage: Stage) -> None:
    log = stage.directory / "access.log"
    words = ["serve", APP, "--app-path", str(APPS), "--bind", "127.0.0.1:0"]
    words += ["--access-log", str(log), "--access-log-format", "json"]
    (stage.directory / "lurcher.toml").write_text('request-id-header = "X-Request-ID"\n')
    lurcher = stage.lurcher(*words, app=None)
    said = lurcher.wait_for_err("listening at 127.0.0.1:")
    found = re.search(r"listening at 127\.0\.0\.1:(\d+)", said)
    assert found
    answer = get(int(found[1]), "/", [("X-Request-ID", "unasked")])
    [made] = answer.all("X-Request-ID")
    assert MADE.fullmatch(made)
    assert answer.body == f"{made} {made}".encode()
    own = get(int(found[1]), "/own")
    assert own.all("X-Request-ID") == ["mine"]
    refused = get(int(found[1]), "/", [("Expect", "wonders")])
    assert [line["request_id"] for line in lines(log, 3)] == [
        made,
        own.body.decode().split()[0],
        refused.header("X-Request-ID"),
    ]
