"""What the environ holds: keys that are missing, have the wrong type, or believe the wrong side."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support import wire
from support.rawhttp import Client
from support.ways import Pairs, Seen, Site, Way, WireTalk

APP = "shown:application"
# What stands in the process environment is none of the request's business.
ENV = {
    "REMOTE_USER": "root",
    "HTTP_X": "os",
    "HTTP_HOST": "os",
    "REQUEST_METHOD": "OS",
    "SCRIPT_NAME": "/os",
    "PATH_INFO": "/os",
    "CONTENT_LENGTH": "7",
    "wsgi.url_scheme": "os",
}


@dataclass
class Shown:
    values: dict[str, Any]
    types: dict[str, str]
    everything: dict[str, Any]

    def get(self, key: str) -> Any:
        """The value of a key that must be a `str`; None if there is no such key."""
        if key not in self.types:
            return None
        assert self.types[key] == "str", (key, self.types[key])
        return self.values[key]

    def octets(self, key: str) -> bytes:
        value = self.get(key)
        assert isinstance(value, str)
        return value.encode("latin-1")


def read(seen: Seen) -> Shown:
    assert seen.status == 200, seen
    assert seen.header("X-Is") == "shown"
    everything = json.loads(seen.body)
    return Shown(everything["values"], everything["types"], everything)


def show(way: Way, target: str = "/", headers: Pairs = (), **options: Any) -> Shown:
    return read(way.ask(target, headers=headers, **options))


def raw(
    site: Site,
    values: dict[bytes, bytes | list[bytes]],
    path: bytes = b"/",
    body: bytes = b"",
    absent: tuple[bytes, ...] = (),
) -> Seen:
    """A message with exactly these keys over the usual ones, less the absent ones."""
    talk = site.wire.talk()
    assert isinstance(talk, WireTalk)
    usual: dict[bytes, bytes | list[bytes]] = {
        **{b"PATH": path, b"host": b"localhost", b"METHOD": b"GET", b"VERSION": b"HTTP/1.1"},
        **{b"URI": path, b"PATTERN": b"/", b"URL_SCHEME": b"http", b"REMOTE_ADDR": b"127.0.0.1"},
    }
    usual.update(values)
    for key in absent:
        del usual[key]
    site.fake.send(wire.message(site.fake.ident, talk.conn, path, usual, body))
    return site.wire.finish(talk, "GET")


@pytest.mark.parametrize(
    ("target", "octets"),
    [
        pytest.param("/%E2%80%8E%C3%A5", b"/\xe2\x80\x8e\xc3\xa5", id="E01"),
        pytest.param("/%e2%80%8e", b"/\xe2\x80\x8e", id="E01-lower-case-escapes"),
        pytest.param("/%FF%FE", b"/\xff\xfe", id="E01-no-utf-8"),
        pytest.param("/a%00b%0d%0ac", b"/a\x00b\r\nc", id="E01-control-characters"),
        pytest.param("/a%2Fb%25%32%35", b"/a/b%25", id="E01-decoded-once"),
        pytest.param("/a+b;c=d", b"/a+b;c=d", id="E01-no-form-decoding"),
        pytest.param("//testing/whatever", b"//testing/whatever", id="E12"),
        pytest.param("//testing", b"//testing", id="E12-nothing-else"),
        pytest.param("///a//b", b"///a//b", id="E12-three"),
        pytest.param("//", b"//", id="E12-only-slashes"),
        pytest.param("//user@localhost/x", b"//user@localhost/x", id="E12-user"),
        pytest.param("/x/../y/./z", b"/x/../y/./z", id="E12-nothing-is-cleaned"),
    ],
)
def test_paths(way: Way, target: str, octets: bytes) -> None:
    shown = show(way, target)
    assert shown.octets("PATH_INFO") == octets
    assert shown.get("SCRIPT_NAME") == ""
    assert shown.get("REQUEST_URI") == shown.get("RAW_URI") == target


@pytest.mark.parametrize(
    ("target", "octets"),
    [
        pytest.param(b"/?q=\xe4\xb8\xad", b"q=\xe4\xb8\xad", id="E02"),
        pytest.param(b"/?q=\xe9", b"q=\xe9", id="E02-no-utf-8"),
        pytest.param(b"/?q=%E4%B8%AD+%2B", b"q=%E4%B8%AD+%2B", id="E02-not-decoded"),
        pytest.param(b"/?", b"", id="E02-empty"),
        pytest.param(b"/", b"", id="E02-absent"),
    ],
)
def test_queries(site: Site, target: bytes, octets: bytes) -> None:
    assert read(site.wire.ask(target.decode("latin-1"))).octets("QUERY_STRING") == octets


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(b"/?q=\xe4\xb8\xad", id="E02-through-mongrel2"),
        pytest.param(b"/caf\xe9", id="E26"),
        pytest.param(b"/caf\xc3\xa9", id="E26-utf-8"),
    ],
)
def test_raw_bytes_in_a_target_are_never_met_with_silence(site: Site, target: bytes) -> None:
    """A strict front end may refuse them; a lenient one passes them on as they are."""
    with Client(site.front.port) as client:
        client.send(b"GET " + target + b" HTTP/1.1\r\nHost: t\r\n\r\n")
        response = client.response()
    assert response.status in (200, 400)
    if response.status == 200:
        values = response.json()["values"]
        path, _, query = target.partition(b"?")
        assert values["PATH_INFO"].encode("latin-1") == path
        assert values["QUERY_STRING"].encode("latin-1") == query


@pytest.mark.parametrize("target", [pytest.param(b"/caf\xe9", id="E26-wire")])
def test_raw_bytes_in_a_path_pass(site: Site, target: bytes) -> None:
    assert read(site.wire.ask(target.decode("latin-1"))).octets("PATH_INFO") == target


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("lev\xe9", id="E03"),
        pytest.param("lev\xc3\xa9", id="E03-utf-8"),
        pytest.param("\x80\xff", id="E03-the-ends"),
        pytest.param('"\\u0041\\', id="E03-quotes-and-backslashes"),
        pytest.param("", id="E03-empty"),
    ],
)
def test_header_values_are_bytes(way: Way, value: str) -> None:
    shown = show(way, headers=[("X-Term", value)])
    assert shown.get("HTTP_X_TERM") == value


@pytest.mark.parametrize(
    ("given", "address", "port"),
    [
        pytest.param(b"127.0.0.1", "127.0.0.1", None, id="E04"),
        pytest.param(b"127.0.0.1:44742", "127.0.0.1", "44742", id="E04-port"),
        pytest.param(b"2001:db8::1", "2001:db8::1", None, id="E05-bare"),
        pytest.param(b"[2001:db8::1]", "2001:db8::1", None, id="E05-brackets"),
        pytest.param(b"[2001:db8::1]:4711", "2001:db8::1", "4711", id="E05-brackets-and-port"),
        pytest.param(b"::1", "::1", None, id="E05-short"),
        pytest.param(b"::ffff:10.0.0.1", "::ffff:10.0.0.1", None, id="E05-mapped"),
        pytest.param(b"fe80::1%eth0", "fe80::1%eth0", None, id="E05-zone"),
    ],
)
def test_the_peer_is_a_bare_address(
    site: Site, given: bytes, address: str, port: str | None
) -> None:
    shown = read(raw(site, {b"REMOTE_ADDR": given}))
    assert shown.get("REMOTE_ADDR") == address
    assert shown.get("REMOTE_PORT") == port
    ipaddress.ip_address(address)


def test_the_peer_of_mongrel2_is_a_bare_address(site: Site) -> None:
    """E04."""
    shown = show(site.http)
    assert shown.get("REMOTE_ADDR") == "127.0.0.1"
    assert shown.get("REMOTE_PORT") is None


@pytest.mark.parametrize(
    ("values", "absent"),
    [
        pytest.param({}, (b"REMOTE_ADDR",), id="E06"),
        pytest.param({b"REMOTE_ADDR": b""}, (), id="E06-empty"),
        pytest.param({b"REMOTE_ADDR": [b"1.2.3.4", b"5.6.7.8"]}, (), id="E06-no-one-knows"),
    ],
)
def test_a_peer_without_an_address(site: Site, values: Any, absent: tuple[bytes, ...]) -> None:
    shown = read(raw(site, values, absent=absent))
    assert shown.get("REMOTE_ADDR") == ""
    assert shown.get("REMOTE_PORT") is None


@pytest.mark.parametrize(
    ("host", "name", "port"),
    [
        pytest.param("shop.example", "shop.example", "80", id="E07"),
        pytest.param("shop.example:8443", "shop.example", "8443", id="E07-port"),
        pytest.param("shop.example:", "shop.example", "80", id="E07-empty-port"),
        pytest.param("[::1]:81", "[::1]", "81", id="E07-ipv6"),
        pytest.param("", "localhost", "80", id="E07-empty"),
    ],
)
def test_server_name_and_port(way: Way, host: str, name: str, port: str) -> None:
    shown = show(way, headers=[("Host", host)])
    assert (shown.get("SERVER_NAME"), shown.get("SERVER_PORT")) == (name, port)


@pytest.mark.parametrize("version", [pytest.param("HTTP/1.0", id="E07-no-host")])
def test_server_name_and_port_without_a_host(way: Way, version: str) -> None:
    shown = show(way, version=version)
    assert (shown.get("SERVER_NAME"), shown.get("SERVER_PORT")) == ("localhost", "80")


@pytest.mark.parametrize(
    ("body", "headers", "length"),
    [
        pytest.param(None, (), None, id="E13"),
        pytest.param(None, [("Content-Length", "0")], "0", id="E13-zero"),
        pytest.param(b"", (), "0", id="E13-empty-body"),
        pytest.param(b"abc", (), "3", id="E13-body"),
        pytest.param(b"abc", [("Content-Length", "003")], "3", id="E13-leading-zeros"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_content_length(
    way: Way, method: str, body: bytes | None, headers: Pairs, length: str | None
) -> None:
    shown = show(way, method=method, headers=headers, body=body)
    assert shown.get("CONTENT_LENGTH") == length
    assert shown.get("CONTENT_TYPE") is None
    assert shown.get("HTTP_CONTENT_LENGTH") is None
    assert shown.everything["body"] == (body or b"").decode()


@pytest.mark.parametrize("kind", [pytest.param("text/x", id="E13-type"), ""])
def test_content_type(way: Way, kind: str) -> None:
    shown = show(way, method="POST", headers=[("Content-Type", kind)], body=b"x")
    assert shown.get("CONTENT_TYPE") == kind
    assert shown.get("HTTP_CONTENT_TYPE") is None


@pytest.mark.parametrize(
    ("headers", "key", "value"),
    [
        pytest.param([("Cookie", "a=1"), ("Cookie", "b=2")], "HTTP_COOKIE", "a=1; b=2", id="E14"),
        pytest.param(
            [("Cookie", "a=1"), ("cookie", "b=2; c=3"), ("COOKIE", "d=4")],
            "HTTP_COOKIE",
            "a=1; b=2; c=3; d=4",
            id="E14-three",
        ),
        pytest.param([("Accept", "a/b"), ("Accept", "c/d")], "HTTP_ACCEPT", "a/b, c/d", id="E15"),
        pytest.param(
            [("X-Two", "1"), ("x-two", ""), ("X-TWO", "3,4")], "HTTP_X_TWO", "1, , 3,4", id="E15-x"
        ),
        pytest.param(
            [("Accept-Language", "a"), ("Accept", "b"), ("Accept-Language", "c")],
            "HTTP_ACCEPT_LANGUAGE",
            "a, c",
            id="E15-apart",
        ),
    ],
)
def test_repeated_headers(way: Way, headers: Pairs, key: str, value: str) -> None:
    assert show(way, headers=headers).get(key) == value


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        pytest.param([("X_Auth_User", "evil")], None, id="E16"),
        pytest.param([("X_Auth_User", "evil"), ("X-Auth-User", "good")], "good", id="E16-first"),
        pytest.param([("X-Auth-User", "good"), ("X_Auth_User", "evil")], "good", id="E16-last"),
        pytest.param([("X-Auth_User", "evil"), ("X-Auth-User", "good")], "good", id="E16-mixed"),
        pytest.param([("x_auth-user", "evil")], None, id="E16-lower-case"),
    ],
)
def test_names_with_underscores(site: Site, way: Way, headers: Pairs, value: str | None) -> None:
    assert show(way, headers=headers).get("HTTP_X_AUTH_USER") == value
    site.lurcher.wait_for_err("with an underscore left out")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Content_Length", id="E16-content-length"),
        pytest.param("Content_Type", id="E16-content-type"),
        pytest.param("Transfer_Encoding", id="E16-transfer-encoding"),
        pytest.param("HTTP_Host", id="E16-a-key"),
        pytest.param("REMOTE_USER", id="E16-remote-user"),
        pytest.param("wsgi.url_scheme", id="E16-wsgi"),
    ],
)
def test_names_that_look_like_keys(way: Way, name: str) -> None:
    bare = show(way)
    shown = show(way, headers=[(name, "9")])
    assert {key for key in shown.values if shown.values[key] == "9"} == set()
    assert set(shown.values) == set(bare.values)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(("X-Forwarded-For", "2001:db8::1"), id="E05"),
        pytest.param(("Forwarded", 'for="[2001:db8::1]:4711";proto=https;host=evil'), id="P10"),
        pytest.param(("SCRIPT_NAME", "/app"), id="E17"),
        pytest.param(("Script-Name", "/app"), id="P05"),
        pytest.param(("X-Script-Name", "/app"), id="P05-x"),
        pytest.param(("X-Forwarded-Prefix", "/app"), id="P05-forwarded"),
        pytest.param(("X-Forwarded-Proto", "https"), id="P02"),
        pytest.param(("X-Forwarded-Ssl", "on"), id="P02-ssl"),
        pytest.param(("X-Forwarded-Protocol", "ssl"), id="P02-protocol"),
        pytest.param(("Front-End-Https", "on"), id="P02-front-end"),
        pytest.param(("X-Forwarded-Host", "evil"), id="P03"),
        pytest.param(("X-Forwarded-Port", "6"), id="P03-port"),
        pytest.param(("X-Forwarded-Server", "evil"), id="P03-server"),
        pytest.param(("X-Real-Ip", "6.6.6.6"), id="P06"),
        pytest.param(("X-Client-Ip", "6.6.6.6"), id="P06-client"),
        pytest.param(("Remote-Addr", "6.6.6.6"), id="P01"),
        pytest.param(("REMOTE_ADDR", "6.6.6.6"), id="P01-key"),
        pytest.param(("url_scheme", "https"), id="E20-key"),
        pytest.param(("URL_SCHEME", "https"), id="E20-upper-case"),
        pytest.param(("Url-Scheme", "https"), id="E20-header"),
        pytest.param(("Remote-User", "root"), id="E21-user"),
        pytest.param(("Server-Name", "evil"), id="E07-forged"),
        pytest.param(("Path-Info", "/evil"), id="P05-path"),
    ],
)
def test_no_client_header_is_believed(way: Way, header: tuple[str, str]) -> None:
    """No front end can be told to be trusted yet, so nothing of the kind has an effect."""
    bare, shown = show(way, "/x"), show(way, "/x", [header])
    trusted = {key for key in bare.values if not key.startswith(("HTTP_", "lurcher."))}
    objects = {"wsgi.input", "wsgi.errors", "waitress.client_disconnected"}
    for key in trusted - objects:
        assert shown.values[key] == bare.values[key], key
    new = {key for key in shown.values if key not in bare.values}
    assert all(key.startswith("HTTP_") for key in new), new


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param("Connection", "HTTP_CONNECTION", id="E18"),
        pytest.param("Foo", "HTTP_FOO", id="E18-unknown"),
        pytest.param("Content-Encoding", "HTTP_CONTENT_ENCODING", id="E18-content"),
        pytest.param("Content-MD5", "HTTP_CONTENT_MD5", id="E18-case"),
        pytest.param("Content-Length-X", "HTTP_CONTENT_LENGTH_X", id="E18-longer"),
        pytest.param("Http-Host", "HTTP_HTTP_HOST", id="E18-twice"),
        pytest.param("X!#$&'*+.^`|~9", "HTTP_X!#$&'*+.^`|~9", id="E18-any-token"),
    ],
)
def test_only_two_headers_lack_the_prefix(way: Way, name: str, key: str) -> None:
    shown = show(way, headers=[(name, "keep-alive")])
    assert shown.get(key) == "keep-alive"
    holders = {key for key, value in shown.values.items() if value == "keep-alive"}
    assert holders == {key}


def test_required_keys(way: Way) -> None:
    """E19, E24."""
    for options in ({}, {"method": "POST", "body": b"x"}, {"version": "HTTP/1.0"}):
        shown = show(way, **options)
        assert shown.everything["type"] == "dict"
        assert shown.get("SCRIPT_NAME") == ""
        for key in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "SERVER_NAME", "SERVER_PORT"):
            assert isinstance(shown.get(key), str)
        assert shown.values["wsgi.version"] == "(1, 0)"
        assert shown.types["wsgi.version"] == "tuple"
        assert shown.get("wsgi.url_scheme") == "http"
        assert shown.values["wsgi.multithread"] is True
        assert shown.values["wsgi.multiprocess"] is False
        assert shown.values["wsgi.run_once"] is False
        assert {"wsgi.input", "wsgi.errors", "wsgi.file_wrapper"} <= set(shown.types)
        assert shown.everything["errors"] == [True] * 3
        cgi = {key for key in shown.types if "." not in key}
        assert {shown.types[key] for key in cgi} == {"str"}


def test_no_interim_responses_are_offered(way: Way) -> None:
    """S08: the key would lead applications to send them unchecked."""
    assert "wsgi.early_hints" not in show(way).types


@pytest.mark.parametrize(
    ("given", "absent", "scheme", "port"),
    [
        pytest.param(b"https", (), "https", "443", id="E20"),
        pytest.param(b"HTTPS", (), "https", "443", id="E20-upper-case"),
        pytest.param(b"http", (), "http", "80", id="E20-http"),
        pytest.param(b"", (), "http", "80", id="E20-empty"),
        pytest.param(b"gopher", (), "http", "80", id="E20-another"),
        pytest.param(b"", (b"URL_SCHEME",), "http", "80", id="E20-absent"),
    ],
)
def test_the_scheme_is_the_front_ends_word(
    site: Site, given: bytes, absent: tuple[bytes, ...], scheme: str, port: str
) -> None:
    shown = read(raw(site, {b"URL_SCHEME": given, b"url_scheme": b"https"}, absent=absent))
    assert (shown.get("wsgi.url_scheme"), shown.get("SERVER_PORT")) == (scheme, port)
    assert shown.get("HTTPS") == ("on" if scheme == "https" else None)


def test_the_process_environment_stays_out(way: Way) -> None:
    """E21."""
    shown = show(way, "/x", [("X", "req")])
    assert shown.get("HTTP_X") == "req"
    assert shown.get("REMOTE_USER") is None
    assert shown.get("CONTENT_LENGTH") is None
    assert shown.get("REQUEST_METHOD") == "GET"
    assert shown.get("PATH_INFO") == "/x"
    assert shown.get("SCRIPT_NAME") == ""
    assert shown.get("HTTP_HOST") == "localhost"
    assert shown.get("wsgi.url_scheme") == "http"
    assert "PATH" not in shown.values
    assert shown.get("HTTP_X") == "req"
    assert show(way).get("HTTP_X") is None


@pytest.mark.parametrize(
    "version", [pytest.param("HTTP/1.0", id="E22"), pytest.param("HTTP/1.1", id="E22-1.1")]
)
def test_the_protocol_is_named_exactly(way: Way, version: str) -> None:
    assert show(way, version=version).get("SERVER_PROTOCOL") == version


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(b"HTTP/None", id="E22-none"),
        pytest.param(b"HTTP/", id="E22-nothing"),
        pytest.param(b"", id="E22-empty"),
        pytest.param(b"http/1.1", id="E22-lower-case"),
        pytest.param(b"HTTP/1.1 ", id="E22-blank"),
        pytest.param(b"HTTP/1.", id="E22-half"),
        pytest.param(b"1.1", id="E22-number"),
    ],
)
def test_a_protocol_that_is_none_is_refused(site: Site, version: bytes) -> None:
    assert raw(site, {b"VERSION": version}).status == 400


@pytest.mark.parametrize(
    ("target", "host", "path", "query"),
    [
        pytest.param("http://h/p?a=b?c", "h", "/p", "a=b?c", id="E25"),
        pytest.param("http://h:81/p?a=b", "h:81", "/p", "a=b", id="E25-port"),
        pytest.param("http://H/p//q", "h", "/p//q", "", id="E25-case"),
        pytest.param("http://h", "h", "/", "", id="E25-no-path"),
        pytest.param("http://h/?x", "h", "/", "x", id="E25-root"),
        pytest.param("/p?a=b?c?", "h", "/p", "a=b?c?", id="E25-question-marks"),
    ],
)
def test_absolute_targets(site: Site, target: str, host: str, path: str, query: str) -> None:
    shown = show(site.http, target, [("Host", host)])
    assert (shown.get("PATH_INFO"), shown.get("QUERY_STRING")) == (path, query)
    # As Mongrel2 forwards it.
    cut = target.removeprefix("http:")
    shown = show(site.wire, cut, [("Host", host)])
    assert (shown.get("PATH_INFO"), shown.get("QUERY_STRING")) == (path, query)


def test_a_question_about_the_server_as_a_whole(site: Site) -> None:
    """E25: `OPTIONS *`."""
    talk = site.wire.talk()
    talk.ask("OPTIONS", "*", (), None, "HTTP/1.1")
    shown = read(site.wire.finish(talk, "OPTIONS"))
    assert (shown.get("SCRIPT_NAME"), shown.get("PATH_INFO")) == ("", "*")
    with Client(site.front.port) as client:
        response = client.ask("OPTIONS", "*")
    assert response.status in (200, 400, 404)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({b"host": [b"a", b"b"]}, id="P07-host"),
        pytest.param({b"host": [b"a", b"a"]}, id="P07-equal"),
        pytest.param({b"content-type": [b"a/b", b"c/d"]}, id="P07-type"),
        pytest.param({b"content-length": [b"0", b"0"]}, id="P07-length"),
        pytest.param({b"host": b"a, b"}, id="P07-joined"),
    ],
)
def test_headers_that_may_not_be_repeated(site: Site, values: Any) -> None:
    seen = raw(site, values)
    assert seen.status == 400
    assert not seen.kept


# The same application elsewhere.


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("mounted")
    site = Site(directory, APP, ["--script-name", "/app"], after="/app/after")
    yield site
    site.end()


@pytest.fixture(params=["wire", "mongrel2"])
def below(request: pytest.FixtureRequest, mounted: Site) -> Way:
    return mounted.wire if request.param == "wire" else mounted.http


@pytest.mark.parametrize(
    ("target", "path"),
    [
        pytest.param("/app/example", "/example", id="E10"),
        pytest.param("/app/example?a=/app", "/example", id="E10-query"),
        pytest.param("/app", "", id="E11"),
        pytest.param("/app?x", "", id="E11-query"),
        pytest.param("/app/", "/", id="E11-slash"),
        pytest.param("/app//x", "//x", id="E10-slashes"),
        pytest.param("/app/app/x", "/app/x", id="E10-once"),
        pytest.param("/%61pp/x", "/x", id="E10-escaped"),
        pytest.param("/app%2Fx", "/x", id="E10-escaped-slash"),
        pytest.param("//localhost/app/x", "/x", id="E10-absolute"),
    ],
)
def test_below_the_mount_point(below: Way, target: str, path: str) -> None:
    shown = show(below, target)
    assert (shown.get("SCRIPT_NAME"), shown.get("PATH_INFO")) == ("/app", path)
    assert shown.get("REQUEST_URI") == target


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/", id="E08"),
        pytest.param("/favicon.ico", id="E08-file"),
        pytest.param("/application", id="E08-longer"),
        pytest.param("/ap", id="E08-shorter"),
        pytest.param("/APP/x", id="E08-case"),
        pytest.param("//app/x", id="E08-slashes"),
        pytest.param("/x/app", id="E08-inside"),
        pytest.param("/?/app/", id="E08-query"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_outside_of_the_mount_point(mounted: Site, below: Way, target: str, method: str) -> None:
    seen = below.ask(target, method=method)
    assert (seen.status, seen.kept) == (404, True)
    assert "Traceback" not in mounted.lurcher.err()


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("lenient"), APP, ["--underscore-headers", "allow"])
    yield site
    site.end()


@pytest.mark.parametrize(
    ("headers", "key", "value"),
    [
        pytest.param([("X_A", "1")], "HTTP_X_A", "1", id="E16-allowed"),
        pytest.param([("X_A", "1"), ("X-A", "2")], "HTTP_X_A", "2", id="E16-allowed-first"),
        pytest.param([("X-A", "2"), ("X_A", "1")], "HTTP_X_A", "2", id="E16-allowed-last"),
        pytest.param(
            [("User_Agent", "1"), ("User-Agent", "2")], "HTTP_USER_AGENT", "2", id="E16-k"
        ),
        pytest.param([("Content_Length", "1")], "CONTENT_LENGTH", None, id="E16-allowed-length"),
        pytest.param([("Content_Length", "1")], "HTTP_CONTENT_LENGTH", None, id="E16-http-length"),
        pytest.param([("Content_Type", "1")], "HTTP_CONTENT_TYPE", None, id="E16-allowed-type"),
        pytest.param([("Transfer_Encoding", "1")], "HTTP_TRANSFER_ENCODING", None, id="E16-coding"),
        pytest.param(
            [("X_Mongrel2_Upload_Done", "/etc/passwd")],
            "HTTP_X_MONGREL2_UPLOAD_DONE",
            None,
            id="E16-allowed-upload",
        ),
    ],
)
def test_names_with_underscores_that_are_allowed(
    lenient: Site, headers: Pairs, key: str, value: str | None
) -> None:
    assert show(lenient.wire, headers=headers).get(key) == value
    assert show(lenient.http, headers=headers).get(key) == value


def test_two_names_with_underscores_and_one_key(lenient: Site) -> None:
    """E15, E16: where both are let in, neither may be lost."""
    shown = show(lenient.wire, headers=[("a_b-c", "1"), ("a-b_c", "2")])
    assert shown.get("HTTP_A_B_C") in ("1, 2", "2, 1")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("strict"), APP, ["--underscore-headers", "refuse"])
    yield site
    site.end()


def test_names_with_underscores_that_are_refused(strict: Site) -> None:
    """E16."""
    for way in (strict.wire, strict.http):
        seen = way.ask("/", headers=[("X_A", "1")])
        assert (seen.status, seen.kept) == (400, False)
        assert show(way, headers=[("X-A", "1")]).get("HTTP_X_A") == "1"


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("validated"), "shown:validated")
    yield site
    site.end()


@pytest.mark.parametrize("which", ["wire", "mongrel2"])
def test_the_reference_checker_has_nothing_to_say(validated: Site, which: str) -> None:
    """E19."""
    way = validated.wire if which == "wire" else validated.http
    show(way, "/a%20b?c=d", [("Accept", "x/y")])
    show(way, "/", method="POST", body=b"abc")
    show(way, "/", version="HTTP/1.0")
    said = validated.lurcher.err()
    assert "Assertion" not in said, said
    assert "WSGIWarning" not in said, said
