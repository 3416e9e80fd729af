"""Our front end beside Mongrel2: the same clients' bytes and the same handler at both, and what comes of it compared.

Each recording in `tests/fixtures/mongrel2` is a case. What ours does otherwise stands in `IMPROVED`, one line and one
reason each, and is expected exactly; everything else must be equal.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.front import PROTOCOLS
from support.handler import Handler, Message, Value
from support.ours import OurFront
from support.rawhttp import Client, ClosedError
from support.stage import Stage

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "mongrel2"
ROUTES = ("/", "*", r"/pat/(\d+)", "/deep/")
# Ours have no patterns.
OUR_ROUTES = ("/", "*", "/deep/")
# Stands for the name of a file that the front end has made.
OURS = "UPLOADED"
TEMP_STORE = "tmp/upload.XXXXXX"

# They come with the later parts of the front end.
LATER = {
    "websocket": "websockets",
    "json-socket": "sockets that are not HTTP",
    "xml-socket": "sockets that are not HTTP",
    "tls": "TLS",
}
# Cases of several steps; each has a test of its own below.
STEPS = (
    "disconnect",
    "disconnect-unknown-id",
    "flow-control-credits",
    "flow-control-request",
    "keepalive-1",
    "keepalive-2",
    "pipelined-1",
    "pipelined-2",
    "upload-aborted-disconnect",
    "upload-aborted-start",
    "upload-stream-first",
    "upload-stream-last",
    "upload-stream-middle",
)
# Each client's bytes stand there for two messages.
DONE = ("upload-done", "chunked-upload-done")


def client_bytes(name: str) -> bytes:
    return (FIXTURES / "client" / f"{name}.bin").read_bytes()


def single_cases() -> list[str]:
    names = sorted(path.stem for path in (FIXTURES / "client").glob("*.bin"))
    later = tuple(LATER)
    return [n for n in names if n not in STEPS and n not in DONE and not n.startswith(later)]


@dataclass
class Seen:
    """What came of one client's bytes."""

    # Without connection ids and names of files.
    messages: list[Message] = field(default_factory=list)
    # Status and body of the responses, interim ones left out.
    responses: list[tuple[int, bytes]] = field(default_factory=list)


Improvement = Callable[[Seen], Seen]


def refused(status: int) -> Improvement:
    """No message; the client is told why and the connection closed."""

    def change(_seen: Seen) -> Seen:
        return Seen([], [(status, b"")])

    return change


def with_keys(changed: dict[str, Value | None]) -> Improvement:
    """Other values for some keys; None: the key is not there."""

    def change(seen: Seen) -> Seen:
        def better(message: Message) -> Message:
            keys = message.keys | {
                key: value for key, value in changed.items() if value is not None
            }
            kept = {key: value for key, value in keys.items() if changed.get(key, "") is not None}
            return dataclasses.replace(message, keys=kept)

        return Seen([better(message) for message in seen.messages], seen.responses)

    return change


def other_target(path: str, uri: str) -> Improvement:
    def change(seen: Seen) -> Seen:
        changed = with_keys({"PATH": path, "URI": uri})(seen)
        changed.messages = [dataclasses.replace(m, path=path) for m in changed.messages]
        return changed

    return change


def in_one_message(body: bytes) -> Improvement:
    """A body that fits into a message comes in one, its chunks undone."""
    keys: dict[str, Value | None] = {
        "content-length": str(len(body)),
        "transfer-encoding": None,
        "x-mongrel2-upload-start": None,
    }

    def change(seen: Seen) -> Seen:
        changed = with_keys(keys)(Seen(seen.messages[:1], seen.responses))
        changed.messages = [dataclasses.replace(m, body=body) for m in changed.messages]
        return changed

    return change


def without_the_clients_name(seen: Seen) -> Seen:
    """The message that a body has begun: what the client says of its end is not in it."""
    began, *rest = seen.messages
    return Seen(
        [*with_keys({"x-mongrel2-upload-done": None})(Seen([began])).messages, *rest],
        seen.responses,
    )


# What our front end does otherwise, and why; docs/front.md tells it to whoever writes handlers.
IMPROVED: dict[str, tuple[Improvement, str]] = {
    "bare-lf": (refused(400), "a lone LF is no line end: two readers would see different heads"),
    "chunked-upload-start": (in_one_message(b"hello world"), "small bodies in chunks need no file"),
    "content-length-and-chunked": (refused(400), "two lengths: request smuggling"),
    "content-length-bogus": (refused(400), "no number"),
    "content-length-dup": (refused(400), "two lengths: request smuggling"),
    "duplicate-headers-7": (
        with_keys({"x-a": ["0", "1", "2", "3", "4", "5", "6"]}),
        "a sixth header of one name is not dropped",
    ),
    "duplicate-host": (refused(400), "RFC 9112 section 3.2"),
    "get-absolute-uri": (other_target("/x", "/x?y=1"), "the authority is not a part of the path"),
    "header-name-control": (refused(400), "no HTTP token"),
    "header-name-crlf": (refused(400), "a line without a colon is no header"),
    "header-name-tokens": (
        with_keys({"x!#$%&'*+-.^_`|~9": None}),
        "a name with `_` could pass for another one in an environ",
    ),
    "header-spaces": (with_keys({"x-sp": "a  b"}), "blanks after a value are not part of it"),
    "header-underscore": (
        with_keys({"x_forwarded_for": None, "content_length": None}),
        "a name with `_` could pass for another one in an environ",
    ),
    "no-host": (refused(400), "RFC 9112 section 3.2"),
    "route-pattern": (with_keys({"PATTERN": "/"}), "routes are prefixes, not patterns"),
    "route-shorter-than-prefix": (
        with_keys({"PATTERN": "/"}),
        "a path that is shorter than a route's is not caught by it",
    ),
    "special-key-smuggling": (
        with_keys({"remote_addr": None, "url_scheme": None}),
        "a name with `_` could pass for another one in an environ",
    ),
    "upload-spoof": (
        with_keys({"x-mongrel2-upload-start": None, "x-mongrel2-upload-done": None}),
        "a client can name no file",
    ),
    "upload-start-spoofed-done": (without_the_clients_name, "a client can name no file"),
    "upload-spoof-huge-length": (refused(413), "a length that is too large is not taken for 0"),
}


@dataclass
class Place:
    """A front end with a bare handler behind it."""

    port: int
    directory: Path
    ident: str
    handler: Handler


@dataclass
class Both:
    """Mongrel2, and ours."""

    theirs: Place
    ours: Place


def start(stage: Stage, protocol: str, settings: dict[str, int | str], *options: str) -> Both:
    mongrel2 = stage.mongrel2(protocol, settings, ROUTES)
    (mongrel2.directory / "tmp").mkdir(exist_ok=True)
    link = mongrel2.links[0]
    handler = Handler([(link.send_spec, link.recv_spec)])
    theirs = Place(mongrel2.port, mongrel2.directory, link.ident, handler)
    front = OurFront(stage.directory, protocol, OUR_ROUTES, options)
    stage.lurchers.append(front.process)
    handler = Handler(front.links, strict=True)
    return Both(theirs, Place(front.port, front.directory, front.ident, handler))


@pytest.fixture(scope="module", params=PROTOCOLS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    """Both front ends, each with a handler; uploads go into files."""
    stage = Stage(tmp_path_factory.mktemp("conformance"))
    try:
        uploads = stage.directory / "ours" / "tmp"
        uploads.mkdir(parents=True)
        options = ["--upload", "files", "--upload-dir", str(uploads), "--inline-limit", "20480"]
        options += ["--client-window", "0"]
        both = start(stage, str(request.param), {"upload.temp_store": TEMP_STORE}, *options)
        yield both
        both.theirs.handler.close()
        both.ours.handler.close()
    finally:
        stage.clear_away()


def answer(message: Message) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    return head if message.keys["METHOD"] == "HEAD" else head + b"ok"


def anonymous(message: Message, place: Place) -> Message:
    """Without what differs from run to run."""
    assert message.ident == place.ident
    keys = {
        key: OURS if key.startswith("x-mongrel2-upload-") and is_ours(value, place) else value
        for key, value in message.keys.items()
    }
    return dataclasses.replace(message, ident="IDENT", conn=0, keys=keys)


def is_ours(value: Value, place: Place) -> bool:
    """Whether it names a file below the front end's directory, and not what a client made up."""
    return isinstance(value, str) and (place.directory / value).parent == place.directory / "tmp"


def observe(place: Place, data: bytes) -> Seen:
    """One client, its bytes, and an answer for each request."""
    seen = Seen()
    handler = place.handler
    handler.drain()
    with Client(place.port, 10) as client:
        client.send(data)
        deadline = time.monotonic() + 10
        while not seen.responses:
            assert time.monotonic() < deadline, "neither a message nor a response"
            message = handler.poll(0.01)
            if message is not None:
                if message.event is None:
                    seen.messages.append(anonymous(message, place))
                    if not is_upload_start(seen.messages[-1]):
                        check_upload(message, place)
                        handler.reply(message, answer(message))
                        method = str(message.keys["METHOD"])
                        seen.responses.append(final_response(client, method))
            elif has_arrived(client):
                status, _ = final_response(client, "GET")
                seen.responses.append((status, b""))
                client.assert_closed()
    return seen


def is_upload_start(message: Message) -> bool:
    """Of a message without names: whether another one follows when the body is there."""
    keys = message.keys
    return keys.get("x-mongrel2-upload-start") == OURS != keys.get("x-mongrel2-upload-done")


def check_upload(message: Message, place: Place) -> None:
    name = message.keys.get("x-mongrel2-upload-done")
    if name is None or not is_ours(name, place):
        return
    path = place.directory / str(name)
    length = message.keys.get("content-length")
    body = path.read_bytes()
    assert body == (b"hello world" if length is None else b"u" * int(str(length)))
    path.unlink()


def has_arrived(client: Client) -> bool:
    client.socket.setblocking(False)
    try:
        got = client.socket.recv(65536)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        raise ClosedError(b"") from None
    if not got:
        raise ClosedError(b"")
    client.buffer += got
    # An interim answer is no answer yet.
    return not client.buffer.startswith(b"HTTP/1.1 100 ") or client.buffer.count(b"\r\n\r\n") > 1


def final_response(client: Client, method: str) -> tuple[int, bytes]:
    while True:
        response = client.response(method)
        if response.status >= 200:
            return response.status, response.body


@pytest.mark.parametrize("name", single_cases())
def test_single_requests(both: Both, name: str) -> None:
    data = client_bytes(name)
    expected = observe(both.theirs, data)
    change = IMPROVED.get(name)
    if change is not None:
        expected = change[0](expected)
    assert observe(both.ours, data) == expected, change and change[1]


GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


def request_of(place: Place, client: Client, data: bytes) -> Message:
    """The message that some bytes come to; late news of earlier clients are passed over."""
    client.send(data)
    while (message := place.handler.next()).event is not None:
        pass
    return message


def on_both(both: Both, steps: Callable[[Place], object]) -> None:
    """The same steps at both, each with the same result."""
    for place in (both.theirs, both.ours):
        place.handler.drain()
    assert steps(both.ours) == steps(both.theirs)


def test_disconnect(both: Both) -> None:
    def steps(place: Place) -> object:
        with Client(place.port, 10) as client:
            first = request_of(place, client, client_bytes("disconnect"))
            place.handler.reply(first, answer(first))
            assert client.response().body == b"ok"
        gone = place.handler.next()
        assert gone.conn == first.conn
        return gone.event, anonymous(gone, place)

    on_both(both, steps)


def test_reply_to_nobody(both: Both) -> None:
    def steps(place: Place) -> object:
        nobody = Message(place.ident, 4_242_424, "", {}, b"")
        place.handler.reply(nobody, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        gone = place.handler.next()
        assert gone.conn == nobody.conn
        # Silent: no event.
        place.handler.control(nobody, b"26:3:ctl,16:6:cancel,4:true!}]")
        with Client(place.port, 10) as client:
            after = request_of(place, client, GET % b"/after")
            place.handler.reply(after, answer(after))
            assert client.response().status == 200
        assert place.handler.next().event == "disconnect"
        return gone.event, anonymous(gone, place), anonymous(after, place)

    on_both(both, steps)


def test_keep_alive(both: Both) -> None:
    def steps(place: Place) -> object:
        found = []
        with Client(place.port, 10) as client:
            for name in ("keepalive-1", "keepalive-2"):
                message = request_of(place, client, client_bytes(name))
                place.handler.reply(message, answer(message))
                assert client.response().body == b"ok"
                found.append(message)
        assert found[0].conn == found[1].conn
        assert place.handler.next().event == "disconnect"
        return [anonymous(message, place) for message in found]

    on_both(both, steps)


def test_pipelined(both: Both) -> None:
    """Mongrel2 sends both at once, ours the second after the first is answered; a handler sees the same requests."""

    def steps(place: Place) -> object:
        with Client(place.port, 10) as client:
            first = request_of(place, client, client_bytes("pipelined-1"))
            place.handler.reply(first, answer(first))
            assert client.response().body == b"ok"
            second = place.handler.next()
            place.handler.reply(second, answer(second))
            assert client.response().body == b"ok"
        assert first.conn == second.conn
        assert place.handler.next().event == "disconnect"
        return anonymous(first, place), anonymous(second, place)

    on_both(both, steps)


def test_upload_that_breaks_off(both: Both) -> None:
    def steps(place: Place) -> object:
        with Client(place.port, 10) as client:
            started = request_of(place, client, client_bytes("upload-aborted-start"))
        gone = place.handler.next()
        assert gone.conn == started.conn
        path = place.directory / str(started.keys["x-mongrel2-upload-start"])
        return anonymous(started, place), gone.event, path.exists()

    on_both(both, steps)


def test_close_by_the_handler(both: Both) -> None:
    """No event follows when the handler closes."""

    def steps(place: Place) -> object:
        with Client(place.port, 10) as client:
            message = request_of(place, client, GET % b"/")
            place.handler.reply(message, answer(message))
            place.handler.reply(message, b"")
            response = client.response()
            client.assert_closed()
        return response.status, response.body, place.handler.drain(0.1)

    on_both(both, steps)


HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
# The grammar of replies: what stands between name and payload, with the id of the connection for `{id}`; `{n}` is the
# length of the targets.
UNKNOWN = " ".join(str(number) for number in range(900_000, 900_127))
GRAMMAR = {
    "ok": "{n}:{id}, ",
    "targets-trailing-space": "{n}:{id} , ",
    "targets-repeated": "{n}:{id} {id}, ",
    "targets-128": "{n}:{id} " + UNKNOWN + ", ",
    "targets-129": "{n}:{id} " + UNKNOWN + " 900127, ",
    "len-leading-zero": "0{n}:{id}, ",
    "bad-no-space": "{n}:{id},",
    "bad-close-without-space": "{n}:{id},",
    "bad-length": "99:{id}, ",
    "bad-targets-leading-space": "{n}: {id}, ",
    "bad-targets-two-spaces": "{n}:{id}  {id}, ",
    "bad-targets-comma": "{n}:{id},{id}, ",
    "bad-empty-targets": "0:, ",
    "bad-uuid-underscore": "{n}:{id}, ",
    "ctl-keep-alive": "{n}:X {id}, ",
    "ctl-credits": "{n}:X {id}, ",
    "ctl-cancel": "{n}:X {id}, ",
    "close": "{n}:{id}, ",
    "other-uuid": "{n}:{id}, ",
    "payload-not-http": "{n}:{id}, ",
    "payload-leading-space": "{n}:{id}, ",
}


# Their first response is whole, and what follows it is one too many.
TAKEN = (
    "ok",
    "targets-trailing-space",
    "targets-128",
    "len-leading-zero",
    "payload-not-http",
    "payload-leading-space",
)


def reply_bytes(name: str, ident: bytes, conn: int, payload: bytes) -> bytes:
    between = GRAMMAR[name].replace("{id}", str(conn))
    targets = between.removeprefix("0").removeprefix("{n}:").rpartition(",")[0]
    return ident + b" " + between.replace("{n}", str(len(targets))).encode() + payload


def recorded(name: str) -> tuple[bytes, int, bytes, bytes]:
    """Name, id and payload of a recorded reply, and the whole of it."""
    data = (FIXTURES / "responses" / f"{name}.bin").read_bytes()
    ident, _, rest = data.partition(b" ")
    index = (FIXTURES / "index.md").read_text(encoding="utf-8")
    numbers = re.search(rf"\| {name} \| `b.\S+ 0?\d*:(?:X )? ?(\d*)", index)
    assert numbers is not None
    comma = rest.rindex(b",", 0, rest.find(b", ") + 2 if b", " in rest else len(rest))
    payload = rest[comma + 1 :].removeprefix(b" ") if name != "bad-no-space" else b"X"
    return ident, int(numbers[1] or 0), payload, data


@pytest.mark.parametrize("name", sorted(GRAMMAR))
def test_replies(both: Both, name: str) -> None:
    """What a reply of this form does to a client that waits; after it comes a good one.

    The recorded payloads that are no HTTP are replaced by a response: what becomes of those is tested below.
    """
    ident, conn, payload, data = recorded(name)
    assert reply_bytes(name, ident, conn, payload) == data, "the grammar is that of the recording"
    control = payload if name.startswith("ctl-") else None
    if name in ("close", "bad-close-without-space"):
        control = b""

    def steps(place: Place) -> object:
        with Client(place.port, 10) as client:
            message = request_of(place, client, GET % b"/")
            own = {"other-uuid": ident, "bad-uuid-underscore": b"a_b"}.get(
                name, message.ident.encode()
            )
            sent = HELLO if control is None else control
            place.handler.publish(reply_bytes(name, own, message.conn, sent), message.link)
            place.handler.reply(message, HELLO.replace(b"hello", b"after"))
            place.handler.reply(message, b"")
            return client.rest()

    theirs = steps(both.theirs)
    if name == "targets-repeated":
        # A second response that nobody asked for: ours does not hand it on.
        assert theirs == HELLO + HELLO + HELLO.replace(b"hello", b"after")
        theirs = HELLO
    if name in TAKEN:
        assert theirs == HELLO + HELLO.replace(b"hello", b"after")
        theirs = HELLO
    ours = steps(both.ours)
    if name == "close":
        # Who waits for an answer is told that there is none.
        assert theirs == b""
        assert isinstance(ours, bytes)
        assert ours.startswith(b"HTTP/1.1 502 ")
        return
    assert (ours, name) == (theirs, name)


@pytest.mark.parametrize("payload", [b"X", b"\x00\x01garbage", b" x"])
def test_a_payload_that_is_no_response(both: Both, payload: bytes) -> None:
    """Mongrel2 hands it on as it is."""
    place = both.ours
    place.handler.drain()
    with Client(place.port, 10) as client:
        message = request_of(place, client, GET % b"/")
        place.handler.reply(message, payload)
        assert client.response().status == 502
        client.assert_closed()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_flow_control(stage: Stage, protocol: str) -> None:
    """The first request of a connection tells the window, and events what is free again.

    Mongrel2 tells of each message, ours may tell of several at once: a handler that keeps the account is never stuck.
    """
    settings: dict[str, int | str] = {"download.flow_control": 1}
    both = start(stage, protocol, settings, "--client-window", "102400")
    body = b"x" * 20_000
    response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def steps(place: Place) -> object:
        messages = []
        free = 0
        with Client(place.port, 10) as client:
            for _ in range(30):
                client.send(client_bytes("flow-control-request"))
                while (message := place.handler.next()).event is not None:
                    assert message.event == "credits"
                    free += int(str(message.keys["DOWNLOAD_CREDITS"]))
                messages.append(anonymous(message, place))
                free += int(str(message.keys.get("DOWNLOAD_CREDITS", "0")))
                for part in (response[:15_000], response[15_000:]):
                    while free < len(part):
                        event = place.handler.next()
                        assert (event.event, event.path) == ("credits", "@*")
                        assert set(event.keys) == {"METHOD", "DOWNLOAD_CREDITS"}
                        free += int(str(event.keys["DOWNLOAD_CREDITS"]))
                    place.handler.reply(message, part)
                    free -= len(part)
                assert client.response().body == body
        return messages

    with both.theirs.handler, both.ours.handler:
        on_both(both, steps)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_uploads_in_parts(stage: Stage, protocol: str) -> None:
    """Where parts end is the front end's choice; what they are together, and what the first and last say, is not."""
    settings: dict[str, int | str] = {"upload.stream": 1, "limits.content_length": 5000}
    options = ["--upload", "stream", "--inline-limit", "5000", "--client-window", "0"]
    both = start(stage, protocol, settings, *options)
    head, _, begun = client_bytes("upload-stream-first").partition(b"\r\n\r\n")
    body = begun + b"t" * (6000 - len(begun))

    def steps(place: Place) -> object:
        with Client(place.port, 10) as client:
            first = request_of(place, client, head + b"\r\n\r\n" + body)
            got, last = first.body, first
            while "UPLOAD_STREAM_DONE" not in last.keys:
                place.handler.control(first, b"27:3:ctl,17:7:credits,4:4000#}]")
                last = place.handler.next()
                assert last.path == first.path
                assert last.keys["UPLOAD_STREAM"] == str(len(got))
                got += last.body
            place.handler.reply(first, HELLO)
            response = client.response()
        assert place.handler.next().event == "disconnect"
        told = dataclasses.replace(anonymous(first, place), body=b"")
        return told, sorted(last.keys), got == body, response.body

    with both.theirs.handler, both.ours.handler:
        on_both(both, steps)


def test_every_recording_is_a_case() -> None:
    recordings = {path.stem for path in (FIXTURES / "client").glob("*.bin")}
    later = {name for name in recordings if name.startswith(tuple(LATER))}
    assert recordings == {*single_cases(), *STEPS, *DONE, *later}
    assert set(IMPROVED) <= set(single_cases())
    assert {path.stem for path in (FIXTURES / "responses").glob("*.bin")} == set(GRAMMAR)
