"""The Mongrel2 wire, written a second time and independently of the server: requests made up, replies read strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Values = Mapping[bytes, bytes | list[bytes]]

REPLY = re.compile(rb"([A-Za-z0-9-]+) ([0-9]+):", re.DOTALL)


def netstring(data: bytes) -> bytes:
    return b"%d:%s," % (len(data), data)


def json_text(text: bytes) -> bytes:
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def json_headers(values: Values) -> bytes:
    """As Mongrel2 writes them: only quotes and backslashes are escaped."""
    members = []
    for key, value in values.items():
        if isinstance(value, list):
            text = b"[" + b",".join(json_text(item) for item in value) + b"]"
        else:
            text = json_text(value)
        members.append(b'"' + key + b'":' + text)
    return netstring(b"{" + b",".join(members) + b"}")


def tnetstring_headers(values: Values) -> bytes:
    """As Mongrel2 writes them: in the reverse order of the JSON form."""
    members = b""
    for key, value in reversed(list(values.items())):
        if isinstance(value, list):
            inside = b"".join(netstring(item) for item in value)
            members += netstring(key) + b"%d:%s]" % (len(inside), inside)
        else:
            members += netstring(key) + netstring(value)
    return b"%d:%s}" % (len(members), members)


def message(
    ident: str, conn: int, path: bytes, values: Values, body: bytes = b"", protocol: str = "json"
) -> bytes:
    headers = json_headers(values) if protocol == "json" else tnetstring_headers(values)
    return b"%s %d %s %s%s" % (ident.encode(), conn, path, headers, netstring(body))


def request(
    ident: str,
    conn: int,
    target: str = "/",
    method: str = "GET",
    headers: Values | None = None,
    body: bytes = b"",
    version: str = "HTTP/1.1",
    protocol: str = "json",
    scheme: bytes = b"http",
    chunked: bool = False,
) -> bytes:
    """An ordinary HTTP request as Mongrel2 forwards it; of a `chunked` body it has undone the chunks."""
    uri = target.encode("latin-1")
    path, mark, query = uri.partition(b"?")
    values: dict[bytes, bytes | list[bytes]] = {b"PATH": path, b"x-forwarded-for": b"127.0.0.1"}
    if version == "HTTP/1.1":
        values[b"host"] = b"localhost"
    if chunked:
        values[b"transfer-encoding"] = b"chunked"
    elif body:
        values[b"content-length"] = b"%d" % len(body)
    values.update(headers or {})
    values.update({b"METHOD": method.encode(), b"VERSION": version.encode(), b"URI": uri})
    if mark:
        values[b"QUERY"] = query
    values.update({b"PATTERN": b"/", b"URL_SCHEME": scheme, b"REMOTE_ADDR": b"127.0.0.1"})
    return message(ident, conn, path, values, body, protocol)


def event(ident: str, conn: int, kind: str, protocol: str = "json") -> bytes:
    body = b'{"type":"%s"}' % kind.encode()
    return message(ident, conn, b"@*", {b"METHOD": b"JSON"}, body, protocol)


@dataclass
class Reply:
    ident: str
    targets: list[int]
    extended: bool
    payload: bytes


def parse_reply(data: bytes) -> Reply:
    """Strictly what Mongrel2 accepts, less the leading zeros: a message that it refuses costs every client."""
    start = REPLY.match(data)
    assert start, f"no reply: {data[:80]!r}"
    count = int(start[2])
    targets, after = data[start.end() : start.end() + count], data[start.end() + count :]
    assert len(targets) == count, data[:80]
    assert after[:2] == b", ", f"no comma and blank after the targets: {data[:80]!r}"
    extended = targets.startswith(b"X ")
    ids = targets[2:] if extended else targets
    assert re.fullmatch(rb"(0|[1-9][0-9]*)( (0|[1-9][0-9]*))*", ids), f"bad targets: {targets!r}"
    numbers = [int(number) for number in ids.split(b" ")]
    assert len(numbers) <= 128
    assert all(number < 2**32 for number in numbers)
    return Reply(start[1].decode(), numbers, extended, after[2:])
