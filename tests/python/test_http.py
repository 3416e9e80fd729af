"""What a client sees through the real Mongrel2, and what the application sees of it, in both encodings."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from support.front import PROTOCOLS
from support.process import Lurcher
from support.rawhttp import Client, ClosedError, Response, ask, get, request
from support.stage import Stage
from support.waiting import wait_for


@dataclass
class Site:
    """One Mongrel2 with one Lurcher behind it, for all tests of this file."""

    port: int
    lurcher: Lurcher
    stage: Stage

    def get(self, target: str) -> Response:
        return get(self.port, target)

    def environ(self, *headers: tuple[str, str], target: str = "/environ") -> dict[str, list[str]]:
        """What the application's environ held: type and value of each key."""
        response = get(self.port, target, headers)
        assert response.status == 200, response
        shown = response.json()
        assert isinstance(shown, dict)
        return shown

    def client(self) -> Client:
        return Client(self.port)


@pytest.fixture(scope="module", params=PROTOCOLS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    stage = Stage(tmp_path_factory.mktemp("site"))
    front = stage.mongrel2(request.param, routes=("/", "@chat", "<news"))
    lurcher = stage.lurcher(*front.options)
    yield Site(front.port, lurcher, stage)
    assert lurcher.is_alive(), f"it ended on its own; it said:\n{lurcher.err()}"
    stage.clear_away()


def test_environ_of_a_get(site: Site) -> None:
    shown = site.environ(("User-Agent", "probe/1"), target="/environ?a=%20b&c")
    expected = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/environ",
        "QUERY_STRING": "a=%20b&c",
        "REQUEST_URI": "/environ?a=%20b&c",
        "RAW_URI": "/environ?a=%20b&c",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "localhost",
        "HTTP_USER_AGENT": "probe/1",
        "HTTP_X_FORWARDED_FOR": "127.0.0.1",
        "wsgi.url_scheme": "http",
    }
    for key, value in expected.items():
        assert shown[key] == ["str", value], key
    assert shown["wsgi.version"] == ["tuple", [1, 0]]
    assert shown["wsgi.multithread"] == ["bool", True]
    assert shown["wsgi.multiprocess"] == ["bool", False]
    assert shown["wsgi.run_once"] == ["bool", False]
    assert shown["wsgi.input_terminated"] == ["bool", True]
    assert shown["type(environ)"] == ["str", "dict"]
    assert {"wsgi.input", "wsgi.errors", "wsgi.file_wrapper"} <= set(shown)
    assert not {"CONTENT_TYPE", "CONTENT_LENGTH", "HTTP_CONTENT_LENGTH"} & set(shown)


def test_environ_names_the_exchange(site: Site) -> None:
    shown = site.environ()
    ours = {key: value for key, value in shown.items() if key.startswith("lurcher.")}
    assert len(ours) >= 3
    values = [value for _, value in ours.values()]
    assert site.stage.fronts[0].links[0].ident in values
    assert "/" in values


def test_server_name_and_port_are_those_of_the_host_header(site: Site) -> None:
    shown = site.environ(("Host", "shop.example:8443"))
    assert shown["SERVER_NAME"] == ["str", "shop.example"]
    assert shown["SERVER_PORT"] == ["str", "8443"]
    assert shown["HTTP_HOST"] == ["str", "shop.example:8443"]


def test_server_name_is_never_empty(site: Site) -> None:
    with site.client() as client:
        response = client.ask("GET", "/environ", version="HTTP/1.0")
    shown = response.json()
    assert shown["SERVER_NAME"][0] == "str"
    assert shown["SERVER_NAME"][1]
    assert shown["SERVER_PORT"][0] == "str"
    assert shown["SERVER_PORT"][1]
    assert shown["SERVER_PROTOCOL"] == ["str", "HTTP/1.0"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "PROPFIND"])
@pytest.mark.parametrize("body", [b"", b"a=1&b=%20", bytes(range(256)), b"x" * 20480])
def test_bodies_arrive_and_return(site: Site, method: str, body: bytes) -> None:
    kind = [("Content-Type", "application/x-www-form-urlencoded")]
    response = ask(site.port, method, "/echo", kind, body)
    assert response.status == 200
    assert response.body == body
    assert response.header("X-Method") == method
    assert response.header("X-Content-Type") == kind[0][1]
    assert response.header("X-Content-Length") == str(len(body))


def test_post_json(site: Site) -> None:
    body = '{"name": "Zoë"}'.encode()
    response = ask(site.port, "POST", "/echo", [("Content-Type", "application/json")], body)
    assert response.json() == {"name": "Zoë"}
    assert response.header("X-Content-Type") == "application/json"


def test_delete_without_a_body(site: Site) -> None:
    response = ask(site.port, "DELETE", "/echo")
    assert (response.status, response.body) == (200, b"")
    assert response.header("X-Content-Length") == "absent"


def test_head_has_the_headers_and_no_body(site: Site) -> None:
    with site.client() as client:
        head = client.ask("HEAD", "/path")
        # The connection is still in step: nothing of a body is in the way.
        whole = client.ask("GET", "/path")
    assert head.status == 200
    assert head.header("Content-Length") == whole.header("Content-Length")
    assert head.all("Transfer-Encoding") == []


def test_head_of_a_stream(site: Site) -> None:
    with site.client() as client:
        assert client.ask("HEAD", "/stream?count=3").status == 200
        assert client.get("/number/1").body == b"1"


@pytest.mark.parametrize("code", ["204", "304"])
def test_statuses_without_a_body(site: Site, code: str) -> None:
    with site.client() as client:
        response = client.get(f"/status?code={code}")
        assert (response.status, response.framing) == (int(code), "none")
        if code == "204":
            assert response.all("Content-Length") == []
        assert response.all("Transfer-Encoding") == []
        assert client.get("/number/2").body == b"2"


def test_empty_body_with_a_status(site: Site) -> None:
    with site.client() as client:
        response = client.get("/status?code=404")
        assert (response.status, response.body) == (404, b"")
        assert client.get("/number/3").body == b"3"


def test_response_headers_in_order_and_as_bytes(site: Site) -> None:
    response = site.get("/headers")
    assert response.all("Set-Cookie") == ["a=1", "b=2; Path=/"]
    assert response.header("X-Latin") == "caf\xe9"


def test_cookies(site: Site) -> None:
    shown = site.environ(("Cookie", "a=1; b=2"))
    assert shown["HTTP_COOKIE"] == ["str", "a=1; b=2"]
    shown = site.environ(("Cookie", "a=1"), ("Cookie", "b=2"))
    assert shown["HTTP_COOKIE"] == ["str", "a=1; b=2"]


def test_duplicate_headers_are_joined_in_order(site: Site) -> None:
    shown = site.environ(("X-Two", "one"), ("x-two", "two, three"), ("X-TWO", ""))
    assert shown["HTTP_X_TWO"] == ["str", "one, two, three, "]


def test_names_with_underscores_are_dropped(site: Site) -> None:
    shown = site.environ(("X_Auth_User", "evil"), ("X-Auth-User", "good"), ("X_Other", "evil"))
    assert shown["HTTP_X_AUTH_USER"] == ["str", "good"]
    assert "HTTP_X_OTHER" not in shown


def test_the_front_ends_own_keys_cannot_be_forged(site: Site) -> None:
    shown = site.environ(
        *(("PATH", "/evil"), ("METHOD", "EVIL"), ("QUERY", "evil"), ("URI", "/evil")),
        *(("REMOTE_ADDR", "6.6.6.6"), ("URL_SCHEME", "https"), ("X-Forwarded-For", "6.6.6.6")),
    )
    assert shown["PATH_INFO"] == ["str", "/environ"]
    assert shown["REQUEST_METHOD"] == ["str", "GET"]
    assert shown["QUERY_STRING"] == ["str", ""]
    assert shown["REMOTE_ADDR"] == ["str", "127.0.0.1"]
    assert shown["wsgi.url_scheme"] == ["str", "http"]
    assert shown["HTTP_PATH"] == ["str", "/evil"]
    assert shown["HTTP_X_FORWARDED_FOR"] == ["str", "127.0.0.1"]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a%20b?x=%C3%A9", b"/a b", b"x=%C3%A9"),
        ("/caf%C3%A9", b"/caf\xc3\xa9", b""),
        ("/caf%E9?", b"/caf\xe9", b""),
        ("/%E2%80%8E%C3%A5", b"/\xe2\x80\x8e\xc3\xa5", b""),
        ("/a%2Fb%00c", b"/a/b\x00c", b""),
        ("/a//b/../c", b"/a//b/../c", b""),
        ("//foo/bar?q", b"//foo/bar", b"q"),
        ("http://localhost/x?y=1", b"/x", b"y=1"),
        ("http://localhost", b"/", b""),
        ("/a?b?c/d", b"/a", b"b?c/d"),
        ("/a?b#f", b"/a", b"b"),
    ],
)
def test_paths_and_queries(site: Site, target: str, path: bytes, query: bytes) -> None:
    with site.client() as client:
        response = client.get(target)
    assert response.status == 200
    assert response.body.decode() == repr([b"", path, query])


def test_latin1_and_utf8_header_values(site: Site) -> None:
    with site.client() as client:
        client.send(
            b"GET /environ HTTP/1.1\r\nHost: localhost\r\nX-L: caf\xe9\r\nX-U: caf\xc3\xa9\r\n\r\n"
        )
        shown = client.response().json()
    assert shown["HTTP_X_L"] == ["str", "caf\xe9"]
    assert shown["HTTP_X_U"] == ["str", "caf\xc3\xa9"]


def test_quotes_and_backslashes_in_header_values(site: Site) -> None:
    value = r'a "quoted\" \\ text \u0041 \n'
    shown = site.environ(("X-Q", value))
    assert shown["HTTP_X_Q"] == ["str", value]


def test_tab_in_a_header_value(site: Site) -> None:
    shown = site.environ(("X-T", "a\tb"))
    assert shown["HTTP_X_T"] == ["str", "a\tb"]


@pytest.mark.parametrize("byte", [1, 7, 8, 11, 12, 27, 31])
def test_control_bytes_in_a_header_value_are_answered(site: Site, byte: int) -> None:
    with site.client() as client:
        client.send(b"GET /number/4 HTTP/1.1\r\nHost: localhost\r\nX-C: a%cb\r\n\r\n" % byte)
        assert client.response().status in (200, 400)


@pytest.mark.parametrize(
    "line", [b"X\x01-A: 1", b"nocolon\r\nX-A: 1", b"\x1bA: 1", b"A\r\n\r\nB: v"]
)
def test_control_bytes_in_a_header_name_are_refused(site: Site, line: bytes) -> None:
    with site.client() as client:
        client.send(b"GET /number/5 HTTP/1.1\r\nHost: localhost\r\n" + line + b"\r\n\r\n")
        response = client.response()
        assert response.status == 400
        client.assert_closed()


def test_keep_alive_is_the_rule_of_http_1_1(site: Site) -> None:
    with site.client() as client:
        for number in range(20):
            response = client.get(f"/number/{number}")
            assert response.body == b"%d" % number
            assert response.header("Connection") in (None, "keep-alive")


def test_connection_close_is_obeyed(site: Site) -> None:
    with site.client() as client:
        response = client.get("/number/6", [("Connection", "Close")])
        assert response.body == b"6"
        assert response.header("Connection") == "close"
        client.assert_closed()


def test_http_1_0_closes(site: Site) -> None:
    with site.client() as client:
        response = client.ask("GET", "/number/7", version="HTTP/1.0")
        assert response.body == b"7"
        client.assert_closed()


def test_http_1_0_with_keep_alive_stays(site: Site) -> None:
    with site.client() as client:
        for number in range(5):
            keep = [("Connection", "keep-alive")]
            response = client.ask("GET", f"/number/{number}", keep, version="HTTP/1.0")
            assert response.body == b"%d" % number
            assert (response.header("Connection") or "").lower() == "keep-alive"


def test_http_1_0_stream_ends_with_the_connection(site: Site) -> None:
    with site.client() as client:
        keep = [("Connection", "keep-alive")]
        response = client.ask("GET", "/stream?count=4&size=5", keep, version="HTTP/1.0")
        assert response.framing == "close"
        assert response.body == b"1111\n2222\n3333\n4444\n"


def test_http_1_1_stream_is_chunked(site: Site) -> None:
    with site.client() as client:
        response = client.get("/stream?count=4&size=5")
        assert response.framing == "chunked"
        assert response.body == b"1111\n2222\n3333\n4444\n"
        assert client.get("/number/8").body == b"8"


def test_a_stream_with_a_length_keeps_it(site: Site) -> None:
    response = site.get("/stream?count=4&size=5&length=1")
    assert response.framing == "length"
    assert response.header("Content-Length") == "20"


def test_the_first_block_comes_before_the_last(site: Site) -> None:
    with site.client() as client:
        began = time.monotonic()
        client.send_request("GET", "/stream?count=3&size=5&ms=400")
        client.head()
        assert client.chunk() == b"1111\n"
        first = time.monotonic() - began
        client.chunks()
        last = time.monotonic() - began
    assert first < 0.4
    assert last >= 0.8


@pytest.mark.parametrize(("count", "size"), [(500, 10), (2000, 100), (40, 70_000)])
def test_many_blocks_in_a_burst_arrive_whole(site: Site, count: int, size: int) -> None:
    """More blocks than Mongrel2 lets wait for one client (16)."""
    response = site.get(f"/stream?count={count}&size={size}")
    expected = b"".join(b"%d" % (i % 10) * (size - 1) + b"\n" for i in range(1, count + 1))
    assert response.body == expected


def test_write_comes_before_the_iterable(site: Site) -> None:
    assert site.get("/write").body == b"written, written again, returned"


def test_reading_the_body_in_pieces(site: Site) -> None:
    response = ask(site.port, "POST", "/lines", body=b"abcdef\ngh\n\nij")
    assert response.body.decode() == repr(
        [
            [b"abcd", b"ef\n", [b"gh\n", b"\n", b"ij"], b"", b""],
            [b"abcdef\n", b"gh\n", b"\n", b"ij"],
        ]
    )


def test_expect_100_continue(site: Site) -> None:
    with site.client() as client:
        headers = [("Expect", "100-continue"), ("Content-Length", "3")]
        client.send(request("POST", "/echo", headers))
        assert client.response().status == 100
        client.send(b"abc")
        assert client.response().body == b"abc"


def test_pipelined_requests_are_answered_in_order(site: Site) -> None:
    """The first takes longest, and there are slots enough to overtake it."""
    waits = [400, 200, 100, 0, 50, 0, 0, 30, 0, 0]
    with site.client() as client:
        client.send(b"".join(request("GET", f"/number/{i}?ms={ms}") for i, ms in enumerate(waits)))
        assert [client.response().body for _ in waits] == [b"%d" % i for i in range(len(waits))]


def test_pipelined_requests_of_several_kinds(site: Site) -> None:
    with site.client() as client:
        client.send(
            request("POST", "/echo", body=b"one")
            + request("HEAD", "/number/2")
            + request("GET", "/stream?count=3&size=4")
            + request("GET", "/status?code=204")
            + request("GET", "/number/5", [("Connection", "close")])
            + request("GET", "/number/6")
        )
        assert client.response().body == b"one"
        assert client.response("HEAD").header("Content-Length") == "1"
        assert client.response().body == b"111\n222\n333\n"
        assert client.response().status == 204
        assert client.response().body == b"5"
        client.assert_closed()


def test_slots_work_side_by_side(site: Site) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: site.get("/who?ms=500").json(), range(4)))
    assert time.monotonic() - began < 1.5
    assert len({answer["thread"] for answer in answers}) == 4


def test_an_application_that_raises_gets_500_and_the_log_the_traceback(site: Site) -> None:
    for when in ("before", "after"):
        with site.client() as client:
            response = client.get(f"/raise?when={when}")
            assert response.status == 500
            assert b"4711" not in response.body
            assert b"Traceback" not in response.body
            assert b"probe" not in response.body
    said = site.lurcher.wait_for_err("RuntimeError: the secret is 4711")
    assert "in raising" in said


def test_an_application_that_leaves_with_system_exit_gets_500(site: Site) -> None:
    pid = site.get("/who").json()["pid"]
    assert site.get("/raise?when=exit").status == 500
    assert site.get("/who").json()["pid"] == pid


def test_an_application_that_raises_in_the_middle_is_cut_off(site: Site) -> None:
    with site.client() as client:
        client.send_request("GET", "/raise?when=middle")
        with pytest.raises(ClosedError):
            client.response()
    assert site.get("/number/9").body == b"9"


def test_wsgi_errors_go_to_the_log(site: Site) -> None:
    assert site.get("/errors?say=hello-4712").body == b"told"
    site.lurcher.wait_for_err("to wsgi.errors: hello-4712")
    site.lurcher.wait_for_err("to stderr: hello-4712")


def test_a_hundred_megabytes_from_a_generator_arrive_whole(site: Site) -> None:
    with Client(site.port, 60) as client:
        response = client.get("/big?mb=100")
    assert len(response.body) == 100 * 1024 * 1024
    got, wanted = hashlib.sha256(response.body), hashlib.sha256()
    for block in range(1600):
        wanted.update(hashlib.sha256(b"%d" % block).digest() * 2048)
    assert got.digest() == wanted.digest()


def test_a_client_that_leaves_ends_its_stream(site: Site) -> None:
    with site.client() as client:
        client.send_request("GET", "/stream/left?count=100000&size=100&ms=10")
        client.head()
        client.chunk()
    closed = wait_for(
        "the iterable to be closed",
        lambda: [line for line in site.stage.record() if line.startswith("closed /stream/left ")],
    )
    assert len(closed) == 1
    assert int(closed[0].split()[2]) < 1000


WEBSOCKET = [
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Version", "13"),
]


def test_a_websocket_handshake_is_refused(site: Site) -> None:
    with site.client() as client:
        response = client.get("/number/10", WEBSOCKET)
        assert response.status in (400, 426, 501)
        assert response.header("Connection") == "close"
        client.assert_closed()


@pytest.mark.parametrize("message", [b'@chat {"a":1}\0', b"<news a='1'/>\0"])
def test_json_and_xml_sockets_are_closed(site: Site, message: bytes) -> None:
    with site.client() as client:
        client.send(message)
        client.rest()
    assert site.get("/number/11").body == b"11"


def test_the_standard_checker_has_nothing_to_say(stage: Stage, protocol: str) -> None:
    front = stage.mongrel2(protocol)
    lurcher = stage.lurcher(*front.options, app="checked:application")
    with Client(front.port) as client:
        assert client.get("/environ?a=b").status == 200
        assert client.ask("POST", "/number/1", body=b"a=1").body == b"1"
        assert client.ask("HEAD", "/number/2").status == 200
        assert client.get("/stream?count=3").status == 200
        assert client.get("/write").status == 200
        assert client.get("/status?code=204").status == 204
        assert client.ask("POST", "/echo", body=b"").status == 200
    assert "AssertionError" not in lurcher.err(), lurcher.err()
    assert "WSGIWarning" not in lurcher.err(), lurcher.err()
