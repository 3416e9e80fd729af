"""The requests of gunicorn's tests, out of its source distribution, sent to `lurcher serve`.

Each is a file with its bytes and one that says how gunicorn's parser reads it, or with which error it refuses. Here an
application tells what it has got. HTTP/1.1 asks for a Host (RFC 9112 section 3.2), which gunicorn does not: requests
without one get one, so that what a case is about comes to be read.
"""

from __future__ import annotations

import runpy
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from support.behind import behind
from support.rawhttp import Client, ClosedError, Response
from support.sdist import unpacked

REQUESTS = unpacked("gunicorn") / "tests" / "requests"
SECONDS = 20
# What belongs to the connection, and what is about its framing.
HOP = {"CONNECTION", "KEEP_ALIVE", "TRANSFER_ENCODING", "CONTENT_LENGTH"}

# Valid for gunicorn, otherwise here: the statuses of its requests. docs/suites.md has the reasons.
STRICTER = {
    "014": [400],
    "025": [400],
    "025_line": [501],
    "028": [400],
    "029": [400],
    "030": [400],
    "031compat": [400],
    "031compat2": [400],
    # Its body is shorter than its length.
    "099": [],
    "compat_obs_fold": [400],
    "compat_obs_fold_huge": [400],
    "pp_01": [400],
    "pp_02": [400],
    "pp_04": [400],
    "pp_05": [400],
    "rfc9112_smuggle_gzip_chunked_01": [501],
    "rfc9112_smuggle_te_identity_chunked_01": [501],
    "rfc9112_target_absolute_userinfo_01": [400],
    "rfc9112_target_authority_connect_01": [501],
    "rfc9112_target_authority_ipv6_01": [501],
}
# Answered by the front end itself.
OPTIONS_OF_ALL = "rfc9112_target_asterisk_options_01"
# Refused by gunicorn, each a single request with a good answer here.
LOOSER = {
    *("006", "007", "008", "009", "010", "011", "012", "017", "limit_header_default_01"),
    *("019", "040", "chunked_07"),
    "rfc9110_field_value_ctl_bel_01",
    "rfc9110_trailer_forbidden_cl_01",
    "rfc9110_trailer_forbidden_host_01",
    "rfc9110_trailer_forbidden_te_01",
    "rfc9112_leading_crlf_02",
}
# The client is gone before its request is whole: no answer.
BROKEN_OFF = {"001", "pp_01", "pp_02", "pp_03", "rfc9112_chunked_missing_final_crlf_01"}


def uri(text: str) -> str:
    """gunicorn's files call it."""
    return text


def case(path: Path) -> tuple[bytes, Any]:
    """The bytes and what is expected."""
    data = path.read_bytes().replace(b"\n", b"")
    for written, meant in ((rb"\r\n", b"\r\n"), (rb"\0", b"\0"), (rb"\n", b"\n"), (rb"\t", b"\t")):
        data = data.replace(written, meant)
    first, *parts = data.split(rb"\x")
    data = first + b"".join(bytes.fromhex(part[:2].decode()) + part[2:] for part in parts)
    assert b"\\" not in data
    return data, runpy.run_path(str(path.with_suffix(".py")), {"uri": uri})["request"]


def cases(kind: str) -> list[Any]:
    paths = sorted((REQUESTS / kind).glob("*.http"))
    assert paths
    return [pytest.param(path, id=path.stem) for path in paths]


def with_host(data: bytes, line: bytes, start: int = 0) -> tuple[bytes, int]:
    """A Host for the request of this line, if it has none; and where the line ends."""
    end = data.find(line, start) + len(line)
    assert end >= len(line), data
    head = data[end:].split(b"\r\n\r\n")[0].lower()
    if not line.endswith(b" HTTP/1.1\r\n") or b"host:" in head:
        return data, end
    return data[:end] + b"Host: localhost\r\n" + data[end:], end


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    site = behind("serve", tmp_path_factory.mktemp("site"), "told:application")
    yield site.port
    site.end()


def answers(port: int, data: bytes, methods: list[str]) -> list[Response]:
    """All that comes for these bytes, of which nothing follows."""
    found = []
    with Client(port, SECONDS) as client:
        client.send(data)
        client.socket.shutdown(socket.SHUT_WR)
        for method in methods:
            try:
                found.append(client.response(method))
            except ClosedError as closed:
                if closed.got:
                    raise
                return found
        client.assert_closed()
    return found


def check(response: Response, expected: Any) -> None:
    """That the application got what gunicorn's parser gets."""
    told = response.json()
    assert told["REQUEST_METHOD"] == expected["method"]
    absolute = urlsplit(expected["uri"])
    # `//` at its beginning does not stand for a host.
    path, _, query = expected["uri"].partition("#")[0].partition("?")
    if absolute.scheme:
        path, query = absolute.path, absolute.query
    assert told["PATH_INFO"].encode("latin-1") == unquote_to_bytes(path)
    assert told["QUERY_STRING"] == query
    assert told["SERVER_PROTOCOL"] == "HTTP/{}.{}".format(*expected["version"])
    assert told["body"].encode("latin-1") == (expected["body"] or b"")
    wanted: dict[str, list[str]] = {}
    for name, value in expected["headers"]:
        wanted.setdefault(name.replace("-", "_"), []).append(value)
    for name, values in wanted.items():
        if name in HOP:
            continue
        key = name if name == "CONTENT_TYPE" else f"HTTP_{name}"
        assert told[key] == ", ".join(values)


@pytest.mark.parametrize("path", cases("valid"))
def test_valid(port: int, path: Path) -> None:
    data, expected = case(path)
    expected = expected if isinstance(expected, list) else [expected]
    at = 0
    for request in expected:
        line = "{} {} HTTP/{}.{}\r\n".format(request["method"], request["uri"], *request["version"])
        if line.encode() in data:
            data, at = with_host(data, line.encode(), at)
    found = answers(port, data, [request["method"] for request in expected])
    statuses = [response.status for response in found]
    if path.stem in STRICTER:
        assert statuses == STRICTER[path.stem]
        return
    assert statuses == [200] * len(expected)
    if path.stem == OPTIONS_OF_ALL:
        assert found[0].body == b""
        return
    for response, request in zip(found, expected, strict=True):
        check(response, request)


@pytest.mark.parametrize("path", cases("invalid"))
def test_invalid(port: int, path: Path) -> None:
    data, _ = case(path)
    line = data[: data.find(b"\r\n") + 2]
    data, _ = with_host(data, line)
    statuses = [response.status for response in answers(port, data, ["GET"])]
    if path.stem in LOOSER:
        assert statuses == [200]
    elif path.stem in BROKEN_OFF:
        assert statuses == []
    else:
        assert len(statuses) == 1
        assert 400 <= statuses[0] < 600
