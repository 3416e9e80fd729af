"""WebTest against a URL: functional tests of an application, sent through the real Mongrel2 and `lurcher serve`.

Once with the checks of wsgiref.validate round the way out, which WebTest puts there by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import webtest
from support.behind import behind


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, front_end: str) -> Iterator[webtest.TestApp]:
    site = behind(front_end, tmp_path_factory.mktemp("site"), "flask_site:application")
    host = f"127.0.0.1:{site.port}"
    # Its cookies are for the host that it believes to ask.
    yield webtest.TestApp(f"http://{host}#httplib", extra_environ={"HTTP_HOST": host})
    site.end()


def test_pages_and_errors(app: webtest.TestApp) -> None:
    app.get("/", status=200).mustcontain("127.0.0.1")
    app.get("/nothing", status=204)
    app.get("/not-there", status=404)
    app.get("/fails", status=500)
    app.head("/", status=200)
    assert "GET" in app.options("/", status=200).headers["Allow"]


def test_forms(app: webtest.TestApp) -> None:
    response = app.post("/form", {"a": "1", "b": "\u00e9"})
    assert response.json == {"a": ["1"], "b": ["\u00e9"]}
    assert app.post_json("/json", {"a": [1, None]}).json == {"a": [1, None]}


def test_upload_and_redirect(app: webtest.TestApp) -> None:
    response = app.post("/files", upload_files=[("file", "webtest.bin", b"x" * 100_000)])
    assert response.status_int == 303
    assert response.follow().body == b"x" * 100_000


def test_cookies(app: webtest.TestApp) -> None:
    app.get("/login")
    assert app.get("/who").json["who"] == "caf\u00e9"
    app.reset()
    assert app.get("/who").json["who"] is None


def test_streams(app: webtest.TestApp) -> None:
    app.get("/stream?count=50").mustcontain("data: /stream 49")
