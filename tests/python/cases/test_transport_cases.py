"""What a front end can send: values of every kind, forged names, the close when it is due, events, floods, restarts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from support import wire
from support.front import PROTOCOLS
from support.rawhttp import Client
from support.served import Heard, Served
from support.stage import Stage
from support.waiting import wait_for


@pytest.fixture(scope="module", params=PROTOCOLS)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """With the probe application; it must serve to the end, with the worker that it began with."""
    stage = Stage(tmp_path_factory.mktemp("site"))
    site = Served(stage, "probe:application", protocol=request.param)
    pids = site.lurcher.wait_for_workers(1)
    yield site
    assert site.ask("/number/1").body == b"1"
    assert site.lurcher.worker_pids() == pids
    stage.clear_away()


def environ(site: Served, **more: Any) -> dict[str, Any]:
    """The values of the application's environ."""
    answer = site.ask("/environ", **more)
    assert answer.status == 200, answer
    return {key: value[1] for key, value in answer.json().items()}


def raw(site: Served, headers: bytes, body: bytes = b"0:,", path: bytes = b"/environ") -> int:
    """Sends a message with the header block given; gives the connection."""
    conn = next(site.numbers)
    site.fake.send(b"%s %d %s %s%s" % (site.fake.ident.encode(), conn, path, headers, body))
    return conn


def tnet(value: object) -> bytes:
    """A value as a tnetstring."""
    if isinstance(value, dict):
        inside = b"".join(tnet(part) for pair in value.items() for part in pair)
        return b"%d:%s}" % (len(inside), inside)
    if isinstance(value, list):
        inside = b"".join(map(tnet, value))
        return b"%d:%s]" % (len(inside), inside)
    if value is None:
        return b"0:~"
    if isinstance(value, bool):
        text = b"true" if value else b"false"
        return b"%d:%s!" % (len(text), text)
    if isinstance(value, int):
        return b"%d:%d#" % (len(b"%d" % value), value)
    data = value if isinstance(value, bytes) else str(value).encode("latin-1")
    return b"%d:%s," % (len(data), data)


BASE: dict[str, Any] = {
    "METHOD": "GET",
    "VERSION": "HTTP/1.1",
    "URI": "/environ",
    "PATH": "/environ",
    "PATTERN": "/",
    "URL_SCHEME": "http",
    "REMOTE_ADDR": "127.0.0.1",
    "host": "localhost",
}


def block(site: Served, values: dict[str, Any]) -> bytes:
    if site.protocol == "json":
        return wire.netstring(json.dumps(values).encode())
    return tnet(values)


# ---- Header blocks


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        ("text", "text"),
        ("", ""),
        (["a", "b", "c"], "a, b, c"),
        (["one"], "one"),
        ("}0:,", "}0:,"),
        ("x" * 100_000, "x" * 100_000),
    ],
    ids=["text", "empty", "list", "list-of-one", "like-a-frame", "long"],
)
def test_m01_values_of_both_encodings(site: Served, value: Any, becomes: str) -> None:
    answer = site.answer(raw(site, block(site, {**BASE, "x-value": value, "x-after": "after"})))
    shown = answer.json()
    assert shown["HTTP_X_VALUE"] == ["str", becomes]
    assert shown["HTTP_X_AFTER"] == ["str", "after"]
    assert shown["REMOTE_ADDR"] == ["str", "127.0.0.1"]


@pytest.mark.parametrize(
    "value",
    [5, -5, True, False, None, [], [[]], ["a", ["b"]], [1], {"a": "b"}, {}, ["a", None]],
    ids=repr,
)
def test_m01_values_that_are_no_text(site: Served, value: Any) -> None:
    """Answered: refused, or taken for what they say; never by another value, nor by silence."""
    answer = site.answer(raw(site, block(site, {**BASE, "x-value": value, "x-after": "after"})))
    assert answer.status in (200, 400)
    if answer.status == 200:
        shown = answer.json()
        assert shown.get("HTTP_X_VALUE", ["str", ""])[0] == "str"
        assert shown["HTTP_X_AFTER"] == ["str", "after"]
        assert shown["REMOTE_ADDR"] == ["str", "127.0.0.1"]
    else:
        assert answer.closed


@pytest.mark.parametrize("wrong", range(14))
def test_m01_blocks_that_are_none(site: Served, wrong: int) -> None:
    """400 and a close for the connection that is named, and the next request is served."""
    good = block(site, BASE)
    size, _, rest = good.partition(b":")
    broken = [
        b"",
        b"0:,",
        b"2:{},",
        b"0:}",
        b"21:" + rest,
        b"%d:" % (int(size) + 1) + rest,
        b"%d:" % (int(size) - 1) + rest,
        b"0" + good,
        b"-1:" + rest,
        b"99999999999999999999:" + rest,
        good[:-1],
        good[:-1] + b"x",
        good + b"x",
        wire.netstring(rest[:-2]),
    ]
    conn = raw(site, broken[wrong])
    data, closed = site.heard(conn)
    assert closed
    assert data.startswith(b"HTTP/1.1 400 ") or data == b""
    assert site.ask("/number/7").body == b"7"


def test_m01_a_block_of_ten_megabytes(site: Served) -> None:
    values = {**BASE, **{f"x-{number}": "v" * 10_000 for number in range(1000)}}
    data, closed = site.heard(raw(site, block(site, values)))
    status = int(data.split(b" ")[1])
    assert status in (200, 400, 413, 431)
    assert closed or status == 200
    assert site.ask("/number/7").body == b"7"


# ---- Names


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"path", b"/evil"),
        (b"method", b"DELETE"),
        (b"remote_addr", b"6.6.6.6"),
        (b"url_scheme", b"https"),
        (b"uri", b"/evil"),
        (b"query", b"evil=1"),
        (b"version", b"HTTP/0.9"),
        (b"pattern", b"/evil"),
        (b"script_name", b"/evil"),
        (b"script-name", b"/evil"),
        (b"x-mongrel2-upload-done", b"/etc/passwd"),
        (b"x-forwarded-proto", b"https"),
        (b"x-forwarded-for", b"6.6.6.6"),
    ],
)
def test_m02_a_clients_header_is_no_word_of_the_front_end(
    site: Served, name: bytes, value: bytes
) -> None:
    plain = environ(site)
    shown = environ(site, headers={name: value})
    header = "HTTP_" + name.decode().upper().replace("-", "_")
    for key in plain:
        if key not in (header, "lurcher.connection_id", "lurcher.request_id"):
            assert shown[key] == plain[key], key
    if b"_" in name or name.startswith(b"x-mongrel2"):
        assert shown.get(header) == plain.get(header)
    else:
        assert shown[header] == value.decode()


def test_m02_a_forged_beginning_of_an_upload_runs_nothing(site: Served) -> None:
    before = len(site.stage.record())
    for name in (b"x-mongrel2-upload-start", b"x-mongrel2-upload-done"):
        data, closed = site.heard(site.send("/number/6", headers={name: b"/etc/passwd"}))
        assert b"root:" not in data
        if name.endswith(b"start"):
            assert (data.split(b" ")[1], closed) in ((b"400", True), (b"413", True))
            assert len(site.stage.record()) == before


def test_m02_through_mongrel2(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    front = stage.mongrel2()
    stage.lurcher(*front.options)
    forged = [
        ("Path", "/evil"),
        ("Method", "DELETE"),
        ("Url_scheme", "https"),
        ("Remote_addr", "6.6.6.6"),
        ("X-Mongrel2-Upload-Done", "/etc/passwd"),
    ]
    with Client(front.port) as client:
        shown = client.get("/environ", forged).json()
    assert shown["PATH_INFO"][1] == "/environ"
    assert shown["REQUEST_METHOD"][1] == "GET"
    assert shown["wsgi.url_scheme"][1] == "http"
    assert shown["REMOTE_ADDR"][1] == "127.0.0.1"
    assert (shown["HTTP_PATH"][1], shown["HTTP_METHOD"][1]) == ("/evil", "DELETE")
    assert "/etc/passwd" not in json.dumps(shown)
    stage.clear_away()


STRANGE = [
    b"a;b",
    b'a"b',
    b"a\\b",
    b"a,b",
    b"a:b",
    b"}0:,",
    b"{",
    b"]",
    b"12:abc,",
    b"a\tb",
    b"x" * 8192,
    b"\xe9\xff",
    "\u4e2d".encode(),
    b"\\ud800",
    b"\\u0041",
    b"%s%n",
    b"a\xc2\x85b",
]


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: repr(value[:12]))
def test_m09_strange_values_arrive_as_they_are(site: Served, value: bytes) -> None:
    """Written as Mongrel2 writes them: only quotes and backslashes are escaped."""
    shown = environ(site, headers={b"user-agent": value, b"x-after": b"after"})
    assert shown["HTTP_USER_AGENT"].encode("latin-1") == value
    assert shown["HTTP_X_AFTER"] == "after"


@pytest.mark.parametrize("value", [b"a\0b", b"a\nb", b"a\rb", b"a\r\nX: y"], ids=repr)
def test_m09_values_that_no_header_can_have(site: Served, value: bytes) -> None:
    answer = site.ask("/environ", headers={b"user-agent": value})
    assert (answer.status, answer.closed) == (400, True)


def test_m09_escapes_of_json(site: Served) -> None:
    """A front end of another kind may write any JSON; what is no byte string of a header is refused."""
    if site.protocol != "json":
        assert site.protocol == "tnetstring"
        return
    for text, becomes in ((r"a\u0041", b"aA"), (r"\u00e9", "\u00e9".encode()), (r"\/", b"/")):
        block = json.dumps(BASE)[:-1] + f', "x-value": "{text}"}}'
        shown = site.answer(raw(site, wire.netstring(block.encode()))).json()
        assert shown["HTTP_X_VALUE"][1].encode("latin-1") == becomes
    # A lone surrogate stands for no byte: shown as something, or refused.
    block = json.dumps(BASE)[:-1] + r', "x-value": "\ud800", "x-after": "after"}'
    answer = site.answer(raw(site, wire.netstring(block.encode())))
    assert answer.status in (200, 400)
    if answer.status == 200:
        assert answer.json()["HTTP_X_AFTER"] == ["str", "after"]
    for text in (r"\u0000", r"\x", r"\u12"):
        block = json.dumps(BASE)[:-1] + f', "x-value": "{text}"}}'
        data, closed = site.heard(raw(site, wire.netstring(block.encode())))
        assert closed, text
        assert data.startswith(b"HTTP/1.1 400 "), text


# ---- The close


@pytest.mark.parametrize(
    ("version", "headers", "closed"),
    [
        ("HTTP/1.1", {}, False),
        ("HTTP/1.1", {b"connection": b"keep-alive"}, False),
        ("HTTP/1.1", {b"connection": b"close"}, True),
        ("HTTP/1.1", {b"connection": b"Close"}, True),
        ("HTTP/1.1", {b"connection": b"x, close"}, True),
        ("HTTP/1.1", {b"connection": b"closed"}, False),
        ("HTTP/1.0", {}, True),
        ("HTTP/1.0", {b"connection": b"Keep-Alive"}, False),
        ("HTTP/1.0", {b"connection": b"close"}, True),
    ],
)
@pytest.mark.parametrize("target", ["/number/1", "/status?code=204"])
def test_m03_closed_when_it_must_be_and_only_then(
    site: Served, target: str, version: str, headers: wire.Values, closed: bool
) -> None:
    """collect() sees to it that nothing comes after a close; an announced close must come."""
    conn = site.send(target, headers=headers, version=version)
    bodiless = "204" in target
    data, _ = site.fake.collect(conn, bodiless=bodiless)
    assert Heard(data).head()[1] in (200, 204)
    if closed:
        wait_for("the close", lambda: site.fake.closed_now(conn), 5)
    else:
        # What is asked after it is answered after it, so a close would have come before.
        assert site.ask("/number/2").body == b"2"
        assert site.fake.of(conn).count(b"") == 0
        assert site.send("/number/3", conn=conn) == conn
        wait_for(
            "the second response",
            lambda: site.fake.receive(0.05) and b"".join(site.fake.of(conn)).endswith(b"3"),
        )
    assert site.fake.of(conn).count(b"") == int(closed)


# ---- Events


def test_m08_events_are_no_requests(site: Served) -> None:
    """Before, during and after a response, twice, and for connections that nobody knows."""
    before = len(site.stage.record())
    for conn in (4_000_000_001, 4_000_000_002):
        site.fake.disconnect(conn)
    early = site.send("/number/11")
    site.answer(early)
    for _ in range(2):
        site.fake.disconnect(early)
    stream = site.send("/stream?count=100000&ms=20")
    wait_for("its beginning", lambda: site.fake.receive(0.05) and site.fake.of(stream))
    site.fake.disconnect(stream)
    closes = "closed /stream"
    wait_for("its close", lambda: any(closes in line for line in site.stage.record()[before:]))
    site.fake.disconnect(stream)
    assert site.ask("/number/12").body == b"12"
    begun = [line for line in site.stage.record()[before:] if line.startswith("begun")]
    assert [line.split()[1] for line in begun] == ["11", "12"]
    for conn in (4_000_000_001, 4_000_000_002):
        assert site.fake.of(conn) == []


def test_m08_the_number_of_a_client_that_left_may_come_again(site: Served) -> None:
    conn = site.send("/stream?count=100000&ms=20")
    wait_for("its beginning", lambda: site.fake.receive(0.05) and site.fake.of(conn))
    site.fake.disconnect(conn)
    site.send("/number/21", conn=conn)
    marks = b"Content-Length: 2\r\n"

    def answered() -> bool:
        site.fake.receive(0.05)
        data = b"".join(site.fake.of(conn))
        return marks in data and data.endswith(b"21")

    wait_for("the answer to the next client of that number", answered)
    after = b"".join(site.fake.of(conn)).rpartition(b"HTTP/1.1 200")[2]
    assert b"Transfer-Encoding" not in after


# ---- Floods, restarts


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.clear_away()


def test_m07_a_flood_is_bounded_and_those_who_left_are_skipped(place: Stage, protocol: str) -> None:
    """One slot, held: what is beyond the queue is refused at once; what waits for clients that left is not run."""
    site = Served(
        place,
        "probe:application",
        ["--threads", "1", "--queue-limit", "50"],
        protocol=protocol,
    )
    site.text("/number/0")
    held = site.send("/number/1?ms=1500")
    wait_for("it to begin", lambda: any(line.startswith("begun 1 ") for line in place.record()))
    conns = {number: site.send(f"/number/{number}") for number in range(1000, 1500)}
    refused: set[int] = set()

    def look() -> bool:
        site.fake.receive(0.05)
        while site.fake.receive(0) is not None:
            continue
        refused.update(
            number
            for number, conn in conns.items()
            if number not in refused and b"".join(site.fake.of(conn)).startswith(b"HTTP/1.1 503 ")
        )
        return len(refused) >= 400

    wait_for("the refusals", look, 20)
    waiting = [number for number in conns if number not in refused]
    gone = waiting[::2]
    for number in gone:
        site.fake.disconnect(conns[number])
    assert site.answer(held).body == b"1"
    answers = {number: site.answer(conns[number]) for number in waiting[1::2]}
    assert {answer.status for answer in answers.values()} <= {200, 503}
    assert sum(answer.status == 200 for answer in answers.values()) >= 20
    run = {int(line.split()[1]) for line in place.record() if line.startswith("begun")}
    # Some may have been at the worker before the news came; it drops those as well.
    assert not run & set(gone)
    assert not run & refused


def test_m05_small_requests_pass_a_large_body(place: Stage) -> None:
    """A body of 24 MB goes in and comes back while others are answered."""
    site = Served(place, "probe:application")
    body = bytes(range(256)) * 4 * 24 * 1024
    large = site.send("/echo", "POST", body=body)
    for number in range(50):
        assert site.ask(f"/number/{number}").body == b"%d" % number
    assert site.answer(large).body == body


def test_m10_a_front_end_with_a_new_name_while_requests_run(place: Stage) -> None:
    """What was asked under the old name vanishes, or is answered under it; the new one is served at once."""
    site = Served(place, "probe:application")
    site.text("/number/0")
    old = site.send("/stream?count=100000&ms=20")
    wait_for("its beginning", lambda: site.fake.receive(0.05) and site.fake.of(old))
    name, former, sub = str(uuid.uuid4()), site.fake.ident, site.fake.sub
    assert sub is not None
    sub.setsockopt_string(zmq.SUBSCRIBE, name)
    sub.setsockopt_string(zmq.UNSUBSCRIBE, former)
    conn = next(site.numbers)
    site.fake.send(wire.request(name, conn, "/number/5"))
    seen: list[wire.Reply] = []

    def look() -> bool:
        while sub.poll(50):
            seen.append(wire.parse_reply(sub.recv()))
            if seen[-1].ident == name and conn in seen[-1].targets:
                return True
        return False

    wait_for("an answer under the new name", look)
    assert all(old not in reply.targets for reply in seen if reply.ident == name)
    site.fake.disconnect(old)
    wait_for("its end", lambda: any("closed /stream" in line for line in place.record()))


# ---- Settings


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("LURCHER_KEEP_ALIVE", "false", "keep-alive = false"),
        ("LURCHER_KEEP_ALIVE", "0", None),
        ("LURCHER_KEEP_ALIVE", "no", None),
        ("LURCHER_KEEP_ALIVE", "true", "keep-alive = true"),
        ("LURCHER_KEEP_ALIVE", "maybe", ""),
        ("LURCHER_WORKERS", "two", ""),
        ("LURCHER_WORKERS", "2.0", ""),
        ("LURCHER_WORKERS", "0", ""),
        ("LURCHER_THREADS", "true", ""),
    ],
)
def test_t08_a_word_is_parsed_or_refused_by_name(
    tmp_path: Path, name: str, value: str, says: str | None
) -> None:
    stage = Stage(tmp_path)
    fake = stage.fake()
    lurcher = stage.lurcher(*fake.options, "--print-config", env={name: value})
    code = lurcher.wait_exit()
    if code == 0:
        shown = " ".join(lurcher.out().split())
        # Never true because it is some text.
        expected = "keep-alive = false" if says is None else says
        assert expected
        assert expected in shown, shown
    else:
        assert code == 64
        assert says in (None, "")
        assert name in lurcher.err()
    stage.clear_away()
