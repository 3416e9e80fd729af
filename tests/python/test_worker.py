"""A real worker process, with the test in the place of the instance."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import bridge
from support.bridge import Instance, message

APPS = Path(__file__).parent / "apps"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An application folder: a copy, since the worker's log lies beside it."""
    for name in ("every_way.py", "numbers.txt"):
        (tmp_path / name).write_bytes((APPS / name).read_bytes())
    return tmp_path


@pytest.fixture
def worker(place: Path) -> Iterator[Instance]:
    with Instance(place, "every_way:app") as instance:
        yield instance.ready()


def calls(worker: Instance, name: str) -> int:
    number: int = json.loads(worker.get("/calls").body).get(name, 0)
    return number


def chunks(answer: bridge.Answer) -> list[bytes]:
    """The chunks of a body; the last is empty if the body is complete."""
    found, rest = [], answer.body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        found.append(rest[:length])
        assert rest[length : length + 2] == b"\r\n"
        rest = rest[length + 2 :]
    return found


def test_hello(worker: Instance) -> None:
    answer = worker.get("/", query="a=1", headers={"user-agent": "probe", "referer": "http://r/"})
    assert answer.head[0] == "HTTP/1.1 200 OK"
    assert answer.header("Content-Type") == "text/plain"
    assert answer.header("Content-Length") == "5"
    assert answer.header("Server") == f"lurcher/{version()}"
    assert (answer.header("Date") or "").endswith(" GMT")
    assert answer.header("Connection") is None
    assert answer.body == b"hello"
    assert (answer.outcome, answer.keep, answer.status) == (bridge.OK, True, 200)
    assert answer.body_bytes == 5
    assert len(answer.frames) == 1
    line = rb'127\.0\.0\.1 - - \[[^]]+\] "GET /\?a=1 HTTP/1\.1" 200 5 "http://r/" "probe"'
    assert re.fullmatch(line, answer.access), answer.access
    assert worker.drain() == 0


def version() -> str:
    import lurcher

    return lurcher.__version__


def test_many_at_once_are_all_answered(worker: Instance) -> None:
    tickets = [worker.request(message("/echo", body=b"%d" % n)) for n in range(500)]
    answers = [worker.answer(ticket) for ticket in tickets]
    assert [answer.body for answer in answers] == [b"%d" % n for n in range(500)]
    assert worker.drain() == 0


def test_environ(worker: Instance) -> None:
    answer = worker.get(
        "/show-environ",
        query="q=%C3%A9",
        conn=4294967295,
        headers={"accept": ["a/b", "c/d"], "x-term": "lev\xe9", "x_hidden": "1", "host": "h:81"},
    )
    environ: dict[str, Any] = json.loads(answer.body)
    types = environ.pop("types")
    expected = {
        "HTTP_ACCEPT": "a/b, c/d",
        "HTTP_HOST": "h:81",
        "HTTP_X_TERM": "lev\xe9",
        "PATH_INFO": "/show-environ",
        "QUERY_STRING": "q=%C3%A9",
        "RAW_URI": "/show-environ?q=%C3%A9",
        "REMOTE_ADDR": "127.0.0.1",
        "REQUEST_METHOD": "GET",
        "REQUEST_URI": "/show-environ?q=%C3%A9",
        "SCRIPT_NAME": "",
        "SERVER_NAME": "h",
        "SERVER_PORT": "81",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_SOFTWARE": f"lurcher/{version()}",
        "lurcher.connection_id": "4294967295",
        "lurcher.request_id": environ["lurcher.request_id"],
        "lurcher.route": "/",
        "lurcher.sender": bridge.SENDER,
        "wsgi.input_terminated": True,
        "wsgi.multiprocess": False,
        "wsgi.multithread": True,
        "wsgi.run_once": False,
        "wsgi.url_scheme": "http",
        "wsgi.version": [1, 0],
    }
    assert environ == expected
    assert types["wsgi.input"] == "BytesIO"
    asked = {"lurcher.client_disconnected", "waitress.client_disconnected"}
    assert {types.pop(key) for key in asked} == {"ClientDisconnected"}
    assert set(types) == set(expected) | {"wsgi.input", "wsgi.errors", "wsgi.file_wrapper"}
    assert {kind for key, kind in types.items() if not key.startswith("wsgi.")} == {"str"}
    worker.wait_for_log("with an underscore left out")


def test_environ_of_the_next_request_is_its_own(worker: Instance) -> None:
    first = json.loads(worker.get("/show-environ", headers={"cookie": "a=1", "x-a": "1"}).body)
    again = json.loads(worker.get("/show-environ", headers={"x-a": "2", "accept": "y"}).body)
    assert (first["HTTP_COOKIE"], first["HTTP_X_A"]) == ("a=1", "1")
    assert "HTTP_COOKIE" not in again
    assert (again["HTTP_X_A"], again["HTTP_ACCEPT"]) == ("2", "y")


def test_post(worker: Instance) -> None:
    answer = worker.get("/echo", method="POST", body=b"name=value\r\n\0\xff" * 1000)
    assert answer.body == b"name=value\r\n\0\xff" * 1000
    answer = worker.get("/read-elsewhere", method="POST", body=b"a\nb\n")
    assert json.loads(answer.body) == ["a\n", "b\n"]


def test_streams(worker: Instance) -> None:
    answer = worker.get("/stream")
    assert answer.head[0] == "HTTP/1.1 404 Not Found"
    assert answer.header("X-Late") == "1"
    assert answer.header("Transfer-Encoding") == "chunked"
    assert answer.header("Content-Length") is None
    assert chunks(answer) == [b"one,", b"two", b""]
    assert answer.keep
    for headers in ({}, {"connection": "keep-alive"}):
        answer = worker.get("/stream", version="HTTP/1.0", headers=headers)
        assert answer.head[0] == "HTTP/1.1 404 Not Found"
        assert answer.header("Transfer-Encoding") is None
        assert answer.header("Connection") == "close"
        assert answer.body == b"one,two"
        assert not answer.keep


@pytest.mark.parametrize(
    ("options", "keep", "connection"),
    [
        ({}, True, None),
        ({"headers": {"connection": "close"}}, False, "close"),
        ({"headers": {"connection": "TE, Close"}}, False, "close"),
        ({"version": "HTTP/1.0"}, False, "close"),
        ({"version": "HTTP/1.0", "headers": {"connection": "Keep-Alive"}}, True, "keep-alive"),
    ],
)
def test_keep_alive(
    worker: Instance, options: dict[str, Any], keep: bool, connection: str | None
) -> None:
    answer = worker.get("/", **options)
    assert (answer.keep, answer.header("Connection")) == (keep, connection)
    answer = worker.get("/fail-early", query="ValueError", **options)
    assert (answer.keep, answer.header("Connection")) == (keep, connection)


def test_the_application_may_ask_for_the_close(worker: Instance) -> None:
    answer = worker.get("/wants-close")
    assert (answer.keep, answer.header("Connection")) == (False, "close")


@pytest.mark.parametrize(
    ("shape", "length", "body"),
    [
        ("list", "2", b"ab"),
        ("tuple", "2", b"ab"),
        ("empty", "0", b""),
        ("empty-iter", "0", b""),
        ("iter", None, b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"),
    ],
)
def test_shapes(worker: Instance, shape: str, length: str | None, body: bytes) -> None:
    answer = worker.get("/shapes", query=shape)
    assert (answer.header("Content-Length"), answer.body) == (length, body)
    assert (answer.outcome, answer.keep) == (bridge.OK, True)


@pytest.mark.parametrize(
    "shape", ["none", "yields-none", "str", "list-of-str", "bytes", "bytearray"]
)
def test_shapes_that_are_refused(worker: Instance, shape: str) -> None:
    answer = worker.get("/shapes", query=shape)
    assert (answer.outcome, answer.status) == (bridge.APP_ERROR, 500)
    worker.wait_for_log("TypeError: the application")


def test_a_wrong_block_late_cuts(worker: Instance) -> None:
    answer = worker.get("/shapes", query="late-str")
    assert (answer.outcome, answer.keep) == (bridge.CUT, False)
    assert chunks(answer) == [b"a"]


def test_head(worker: Instance) -> None:
    answer = worker.get("/", method="HEAD")
    assert answer.body == b""
    assert answer.keep
    answer = worker.get("/stream", method="HEAD")
    assert (answer.header("X-Late"), answer.body, answer.keep) == ("1", b"", True)
    assert answer.header("Transfer-Encoding") is None
    answer = worker.get("/lengths", query="10", method="HEAD")
    assert (answer.header("Content-Length"), answer.body) == ("10", b"")
    assert calls(worker, "lengths") == 1
    answer = worker.get("/fail-early", query="ValueError", method="HEAD")
    assert (answer.status, answer.body) == (500, b"")


@pytest.mark.parametrize("number", [204, 304])
def test_statuses_without_a_body(worker: Instance, number: int) -> None:
    answer = worker.get("/status", query=f"{number},5")
    assert (answer.body, answer.keep) == (b"", True)
    assert answer.header("Transfer-Encoding") is None
    assert answer.header("Content-Length") == ("5" if number == 304 else None)
    assert worker.get("/status", query=str(number)).header("Content-Length") is None
    assert calls(worker, "status") == 2
    worker.wait_for_log(f"body with status {number}")


def test_lengths(worker: Instance) -> None:
    answer = worker.get("/lengths", query="5")
    assert (answer.body, answer.outcome, answer.keep) == (b"Hello", bridge.OK, True)
    worker.wait_for_log("longer than its content length 5")
    answer = worker.get("/lengths", query="300")
    assert (answer.body, answer.outcome, answer.keep) == (b"HelloEXTRA", bridge.CUT, False)
    worker.wait_for_log("290 bytes shorter than its content length 300")
    assert calls(worker, "lengths") == 2


def test_write(worker: Instance) -> None:
    answer = worker.get("/write", query="length")
    assert (answer.header("Content-Length"), answer.body) == ("3", b"123")
    assert b"".join(chunks(worker.get("/write"))) == b"123"


@pytest.mark.parametrize(
    "error",
    [
        "ValueError",
        "StopIteration",
        "OSError",
        "SystemExit",
        "KeyboardInterrupt",
        "GeneratorExit",
        "Unprintable",
    ],
)
def test_any_exception(worker: Instance, error: str) -> None:
    answer = worker.get("/fail-early", query=error)
    assert (answer.outcome, answer.status, answer.keep) == (bridge.APP_ERROR, 500, True)
    assert answer.header("Content-Length") == str(len(answer.body))
    assert answer.body == b"500 Internal Server Error\n"
    log = worker.wait_for_log("in fail_early")
    assert f"GET /fail-early?{error}" in log
    assert "Traceback (most recent call last)" in log
    assert "lurcher/" not in log.replace(f"lurcher/{version()}", "")
    # The generator protocol ends an iteration with StopIteration: that one is no error there.
    if error != "StopIteration":
        answer = worker.get("/fail-first", query=error)
        assert (answer.outcome, answer.status) == (bridge.APP_ERROR, 500)
        assert calls(worker, "fail-first") == 1
    answer = worker.get("/fail-close", query=error)
    assert (answer.outcome, answer.keep) == (bridge.CUT, False)
    assert chunks(answer) == [b"part"]
    assert calls(worker, "fail-close") == 1
    assert worker.drain() == 0


def test_an_exception_after_the_head_cuts(worker: Instance) -> None:
    answer = worker.get("/fail-late")
    assert (answer.outcome, answer.keep, answer.status) == (bridge.CUT, False, 200)
    assert chunks(answer) == [b"part"]
    assert calls(worker, "fail-late") == 1
    worker.wait_for_log("ValueError: secret")


def test_the_application_cannot_break_its_slots(worker: Instance) -> None:
    for _ in range(20):
        for error in ("SystemExit", "KeyboardInterrupt", "Unprintable"):
            worker.get("/fail-early", query=error)
            worker.get("/fail-close", query=error)
    assert worker.get("/recurse").status == 500
    assert worker.get("/set-signal").status == 500
    tickets = [worker.request(message("/sleep", query="1")) for _ in range(2)]
    began = time.monotonic()
    assert [worker.answer(ticket).status for ticket in tickets] == [200, 200]
    assert time.monotonic() - began < 1.9, "both slots are there"


@pytest.mark.parametrize("case", ["never", "twice", "too-late"])
def test_start_response_at_the_wrong_time(worker: Instance, case: str) -> None:
    answer = worker.get("/starts", query=case)
    assert (answer.outcome, answer.status) == (bridge.APP_ERROR, 500)
    worker.wait_for_log("start_response")


@pytest.mark.parametrize(
    ("case", "head"),
    [
        ("empty-first", "HTTP/1.1 201 Created"),
        ("none-given", "HTTP/1.1 200 OK"),
        ("none-by-name", "HTTP/1.1 200 OK"),
        ("replaced", "HTTP/1.1 500 Oops"),
    ],
)
def test_start_response(worker: Instance, case: str, head: str) -> None:
    answer = worker.get("/starts", query=case)
    assert (answer.head[0], answer.outcome) == (head, bridge.OK)
    assert answer.header("X-Replaced") == ("1" if case == "replaced" else None)
    assert answer.header("X-Old") is None


def test_exc_info_is_raised_when_it_is_too_late(worker: Instance) -> None:
    answer = worker.get("/starts", query="raised-again")
    assert (answer.outcome, answer.keep) == (bridge.CUT, False)
    assert "ZeroDivisionError" in worker.wait_for_log("1 / 0")


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ("value", "ValueError: header 'X': control character"),
        ("value-nul", "ValueError: header 'X': control character"),
        ("name", "ValueError: header 'A\\r\\nB': header name"),
        ("status", "ValueError: control character in the status"),
        ("status-word", "ValueError: status must be"),
        ("bytes-value", "TypeError: the value of header 'X' must be str, not bytes"),
        ("bytes-name", "TypeError: the header name b'X' must be str, not bytes"),
        ("bytes-status", "TypeError: the status must be str, not bytes"),
        ("int-value", "TypeError: the value of header 'X' must be str, not int"),
        ("none-value", "TypeError: the value of header 'X' must be str, not NoneType"),
        ("tuple", "TypeError: the headers must be a list, not tuple"),
        ("no-pair", "TypeError: each header must be a tuple"),
        ("triple", "TypeError: each header must be a tuple"),
        ("beyond-latin-1", "ValueError: header 'X' has characters beyond latin-1"),
        ("surrogate", "ValueError: header 'X' has characters beyond latin-1"),
        ("length-int", "TypeError: the value of header 'Content-Length' must be str, not int"),
        ("length-word", "ValueError: header 'Content-Length': content length"),
        ("length-twice", "ValueError: header 'content-length': more than one"),
    ],
)
def test_bad_heads(worker: Instance, case: str, error: str) -> None:
    answer = worker.get("/bad-head", query=case)
    assert (answer.outcome, answer.status) == (bridge.APP_ERROR, 500)
    assert answer.header("X") is None
    assert answer.header("Set-Cookie") is None
    worker.wait_for_log(error)


def test_headers_go_out_as_they_are(worker: Instance) -> None:
    answer = worker.get("/headers")
    assert answer.head == [
        "HTTP/1.1 200 \xd6K",
        "P3P: x",
        "eTag: y",
        "Set-Cookie: 1",
        "set-cookie: 2",
        "Location: /foob\xe0r",
        "DATE: then",
        "server: mine",
        "Content-Length: 2",
    ]
    log = worker.wait_for_log('"Upgrade" of the application is dropped')
    worker.get("/headers")
    assert worker.log().count("is dropped") == log.count("is dropped") == 4


@pytest.mark.parametrize(
    ("case", "body"),
    [
        ("bytesio", b"x" * 300_000),
        ("only-read", b"y" * 20_000),
        ("by-name", b"z"),
        ("position", b"abcd"),
        ("pipe", b"data"),
        ("middleware", b"ABC" * 3000),
    ],
)
def test_files(worker: Instance, case: str, body: bytes) -> None:
    answer = worker.get("/files", query=case)
    got = answer.body if case == "position" else b"".join(chunks(answer))
    assert got == body
    assert (answer.outcome, answer.body_bytes) == (bridge.OK, len(body))
    assert calls(worker, "file") == (1 if case == "bytesio" else 0)


def test_a_large_body_waits_for_its_window(worker: Instance) -> None:
    size = 1 << 20
    ticket = worker.request(message("/large", query=str(size)))
    got = 0
    while got < bridge.WINDOW - 64 * 1024:
        frame = worker.take(bridge.DATA, ticket)
        assert frame.flags == bridge.MORE
        assert len(frame.payload) <= 64 * 1024
        got += len(frame.payload)
    # The slot waits, the other one works, and so does the interpreter.
    assert worker.get("/").body == b"hello"
    time.sleep(0.2)
    worker.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        worker.read()
    worker.socket.settimeout(30)
    assert got <= bridge.WINDOW
    worker.send(bridge.ACK, ticket, struct.pack("<Q", got))
    answer = worker.answer(ticket)
    assert answer.outcome == bridge.OK
    assert got + len(answer.data) > size
    assert [frame.flags for frame in answer.frames][-1] == 0
    assert answer.body_bytes == size
    assert calls(worker, "large") == 1


def test_a_client_that_leaves_while_its_slot_waits(worker: Instance) -> None:
    ticket = worker.request(message("/large", query=str(1 << 22)))
    worker.take(bridge.DATA, ticket)
    worker.send(bridge.GONE, ticket)
    answer = worker.answer(ticket, ack=False)
    assert (answer.outcome, answer.keep) == (bridge.CLIENT_GONE, False)
    assert calls(worker, "large") == 1


@pytest.mark.parametrize(
    ("path", "name"), [("/endless", "endless"), ("/write-to-the-gone", "gone")]
)
def test_a_client_that_leaves_a_stream(worker: Instance, path: str, name: str) -> None:
    ticket = worker.request(message(path))
    worker.take(bridge.DATA, ticket)
    worker.send(bridge.GONE, ticket)
    answer = worker.answer(ticket)
    assert (answer.outcome, answer.keep) == (bridge.CLIENT_GONE, False)
    assert calls(worker, name) == 1
    assert "Traceback" not in worker.log()


def test_recall(place: Path) -> None:
    with Instance(place, "every_way:app", {"threads": 1}) as worker:
        worker.ready()
        first = worker.request(message("/sleep", query="0.5"))
        worker.wait_until_begun(first)
        second, third = worker.request(message("/")), worker.request(message("/echo", body=b"3"))
        worker.send(bridge.RECALL, second)
        worker.send(bridge.RECALL, first)
        worker.take(bridge.RECALLED, second)
        assert worker.answer(first).body == b"slept"
        assert worker.answer(third).body == b"3"
        assert worker.begun() == third
        assert worker.drain() == 0
        assert not worker.pending, "one recall had no effect, the other exactly one"


def test_the_board_tells_what_is_at_work(worker: Instance) -> None:
    ticket = worker.request(message("/sleep", query="0.4"))
    worker.wait_until_begun(ticket)
    slots = [struct.unpack("<QQ", os.pread(worker.board, 16, 24 + 16 * n)) for n in range(2)]
    (since,) = [since for number, since in slots if number == ticket]
    assert 0 <= time.monotonic_ns() - since < 10**9
    worker.answer(ticket)
    slots = [struct.unpack("<QQ", os.pread(worker.board, 16, 24 + 16 * n)) for n in range(2)]
    assert [number for number, _ in slots] == [0, 0]


def test_drain_finishes_what_is_there(place: Path) -> None:
    with Instance(place, "every_way:app", {"threads": 1}) as worker:
        worker.ready()
        tickets = [worker.request(message("/sleep", query="0.1")) for _ in range(4)]
        worker.send(bridge.DRAIN)
        assert [worker.answer(ticket).body for ticket in tickets] == [b"slept"] * 4
        assert worker.process.wait(10) == 0


def test_atexit_runs(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        "import atexit\n"
        "atexit.register(lambda: open('bye', 'a').write('bye\\n'))\n"
        "import os; os.chdir(os.path.dirname(__file__))\n"
        "def app(e, s):\n    s('200 OK', [])\n    return [b'x']\n"
    )
    with Instance(tmp_path, "late:app") as worker:
        worker.ready()
        worker.get("/")
        assert worker.drain() == 0
    assert (tmp_path / "bye").read_text() == "bye\n"


def test_an_instance_that_vanishes(place: Path) -> None:
    with Instance(place, "every_way:app", {"threads": 1}) as worker:
        worker.ready()
        first = worker.request(message("/sleep", query="0.5"))
        worker.wait_until_begun(first)
        second = worker.request(message("/fail-early", query="ValueError"))
        worker.socket.close()
        assert worker.process.wait(10) == 0
        assert worker.begun() == first, "nothing new was begun"
        assert second not in (0, worker.begun())
        assert "Traceback" not in worker.log()


def test_an_instance_that_vanishes_while_a_request_hangs(place: Path) -> None:
    settings = {"threads": 1, "graceful_timeout_ms": 300}
    with Instance(place, "every_way:app", settings) as worker:
        worker.ready()
        worker.wait_until_begun(worker.request(message("/hold")))
        worker.socket.close()
        assert worker.process.wait(10) == -signal.SIGKILL


def test_sigterm_asks_for_the_drain(worker: Instance) -> None:
    ticket = worker.request(message("/sleep", query="0.3"))
    worker.wait_until_begun(ticket)
    os.kill(worker.process.pid, signal.SIGTERM)
    worker.take(bridge.LEAVING)
    os.kill(worker.process.pid, signal.SIGTERM)
    os.kill(worker.process.pid, signal.SIGINT)
    assert worker.get("/").body == b"hello", "it goes on until it is drained"
    assert worker.answer(ticket).body == b"slept"
    assert worker.drain() == 0
    assert not worker.pending, "it said so once"


def test_a_forked_process_is_no_worker(worker: Instance) -> None:
    for _ in range(5):
        assert worker.get("/fork").body == b"0"
        assert worker.get("/fork", query="terminate").body == b"15"
    assert worker.drain() == 0
    assert not worker.pending


def test_the_reference_validator_agrees(tmp_path: Path) -> None:
    (tmp_path / "valid.py").write_text(
        "from wsgiref.validate import validator\n"
        "def plain(environ, start_response):\n"
        "    environ['wsgi.errors'].write('x\\n')\n"
        "    body = environ['wsgi.input'].read(10) + environ['wsgi.input'].readline(5)\n"
        "    write = start_response('200 OK', [('Content-Type', 'text/plain')])\n"
        "    write(body)\n"
        "    return (b for b in [b'', b'end'])\n"
        "app = validator(plain)\n"
    )
    with Instance(tmp_path, "valid:app") as worker:
        worker.ready()
        for options in (
            {},
            {"method": "POST", "body": b"0123456789abcdef"},
            {"version": "HTTP/1.0"},
        ):
            answer = worker.get("/x%C3%A9", query="a=b", **options)
            assert (answer.outcome, answer.status) == (bridge.OK, 200), worker.log()
        assert worker.get("/", method="HEAD").body == b""
        assert worker.drain() == 0
        assert "Assertion" not in worker.log()


def test_messages_that_are_no_requests(worker: Instance) -> None:
    for wire in (
        b"nonsense",
        b"",
        message("/")[:-3],
        f"{bridge.SENDER} 7 / ".encode() + bridge.netstring(b'{"a":') + bridge.netstring(b""),
    ):
        answer = worker.answer(worker.request(wire))
        assert (answer.outcome, answer.status, answer.keep) == (bridge.REFUSED, 400, False)
        assert answer.header("Connection") == "close"
    worker.wait_for_log("request refused with 400: malformed message")


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"headers": {"content-length": "3x"}, "body": b"abc"}, 400),
        ({"headers": {"content-length": ["3", "3"]}, "body": b"abc"}, 400),
        ({"headers": {"content-length": "9"}, "body": b"abc"}, 400),
        ({"headers": {"host": ["a", "a"]}}, 400),
        ({"headers": {"no token": "1"}}, 400),
        ({"headers": {"transfer-encoding": "gzip"}}, 501),
    ],
)
def test_requests_that_are_refused(worker: Instance, options: dict[str, Any], number: int) -> None:
    answer = worker.get("/calls", method="POST", **options)
    assert (answer.outcome, answer.status, answer.keep) == (bridge.REFUSED, number, False)
    assert b'"POST /calls HTTP/1.1" %d ' % number in answer.access
    assert worker.get("/").status == 200


def test_script_name(place: Path) -> None:
    with Instance(place, "every_way:app", {"script_name": "/app"}) as worker:
        worker.ready()
        environ = json.loads(worker.get("/app/show-environ").body)
        assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/app", "/show-environ")
        answer = worker.get("/application")
        assert (answer.outcome, answer.status, answer.keep) == (bridge.REFUSED, 404, True)


def test_what_is_kept_reaches_no_other_response(worker: Instance) -> None:
    assert worker.get("/keep").body == b"kept"
    answer = worker.get("/use-kept")
    assert json.loads(answer.body) == ["the request is over"] * 2
    assert worker.get("/spoil-environ").body == b"spoilt"
    assert worker.get("/").body == b"hello"


def test_wsgi_errors(worker: Instance) -> None:
    worker.get("/errors")
    log = worker.wait_for_log("forged")
    for line in ("first line", "second line", "\u00c9cole \\ud800", "unfinished"):
        assert re.search(rf"ERROR worker-1\[\d+\]: application: {re.escape(line)}$", log, re.M), log
    assert "\x1b" not in log
    assert "\r" not in log
    assert calls(worker, "errors") == 1


def test_each_request_has_its_own_context(worker: Instance) -> None:
    for _ in range(4):
        assert chunks(worker.get("/context"))[:2] == [b"unset", b"set"]


def test_python_threads_run_while_slots_wait(tmp_path: Path) -> None:
    (tmp_path / "ticking.py").write_text(
        "import threading, time\n"
        "count = 0\n"
        "def tick():\n"
        "    global count\n"
        "    while True:\n        time.sleep(0.01)\n        count += 1\n"
        "threading.Thread(target=tick, daemon=True).start()\n"
        "def app(e, s):\n    s('200 OK', [])\n    return [str(count).encode()]\n"
    )
    with Instance(tmp_path, "ticking:app") as worker:
        worker.ready()
        time.sleep(1)
        assert int(worker.get("/").body) >= 50
        assert worker.drain() == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import nowhere\n", "ModuleNotFoundError: No module named 'nowhere'"),
        ("raise SystemExit(1)\n", "SystemExit: 1"),
        ("x = 1\n", "has no 'app'"),
        ("app = 5\n", "is not callable"),
    ],
)
def test_an_application_that_does_not_load(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    with Instance(tmp_path, "broken:app") as worker:
        report = worker.take(bridge.LOAD_FAILED).payload.decode()
        assert expected in report
        assert "lurcher" not in report.replace("lurcher_application", "")
        assert worker.process.wait(10) == 4
        assert worker.read() is None


def test_a_process_without_an_instance(tmp_path: Path) -> None:
    with Instance(tmp_path, "x:y") as worker:
        worker.socket.close()
        assert worker.process.wait(10) == 4 or worker.process.returncode == 70
