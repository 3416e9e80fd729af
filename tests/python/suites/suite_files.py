"""Files and parts of them, as Werkzeug and Django send them through `wsgi.file_wrapper`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.behind import behind
from support.rawhttp import Client

BODY = random.Random(7).randbytes(700_001)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, front_end: str) -> Iterator[int]:
    file = Path(tmp_path_factory.mktemp("files")) / "file"
    file.write_bytes(BODY)
    env = {"SENDS_FILES": str(file)}
    site = behind(front_end, tmp_path_factory.mktemp("site"), "sends_files:application", env=env)
    yield site.port
    site.end()


@pytest.mark.parametrize("target", ["/flask", "/django", "/static/file"])
def test_a_whole_file(port: int, target: str) -> None:
    with Client(port) as client:
        for _ in range(2):
            response = client.get(target)
            assert (response.status, response.body) == (200, BODY)
            assert response.header("Content-Length") == str(len(BODY))
        head = client.ask("HEAD", target)
        assert head.header("Content-Length") == str(len(BODY))
        assert client.get(target).body == BODY


@pytest.mark.parametrize("target", ["/flask", "/static/file"])
def test_a_file_that_is_known(port: int, target: str) -> None:
    with Client(port) as client:
        since = client.get(target).header("Last-Modified")
        assert since
        assert client.get(target, [("If-Modified-Since", since)]).status == 304
        assert client.get(target).body == BODY


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("0-0", 0, 0),
        ("0-99999", 0, 99_999),
        ("131071-131073", 131_071, 131_073),
        ("600000-", 600_000, 700_000),
        ("-5", 699_996, 700_000),
        ("700000-900000", 700_000, 700_000),
    ],
)
def test_a_part_of_a_file(port: int, asked: str, first: int, last: int) -> None:
    """Ranges are Werkzeug's; Django has none."""
    with Client(port) as client:
        response = client.get("/flask", [("Range", f"bytes={asked}")])
        assert (response.status, response.body) == (206, BODY[first : last + 1])
        assert response.header("Content-Range") == f"bytes {first}-{last}/{len(BODY)}"
        assert response.header("Content-Length") == str(last + 1 - first)
        assert client.get("/flask", [("Range", "bytes=800000-")]).status == 416
        assert client.get("/django", [("Range", f"bytes={asked}")]).body == BODY
