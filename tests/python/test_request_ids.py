"""Request ids: one name for a request in the environ, the response and the logs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from support.rawhttp import Client, Response, get
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
