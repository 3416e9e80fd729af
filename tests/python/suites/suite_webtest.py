"""WebTest against a URL: functional tests of an application, sent through Lurcher and the real Mongrel2.

Once with the checks of wsgiref.validate round the way out, which WebTest puts there by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import webtest
from support.stage import Stage
from support.waiting import wait_for


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webtest.TestApp]:
    stage = Stage(tmp_path_factory.mktemp("site"))
    front = stage.mongrel2(settings={"limits.content_length": 8 * 1024 * 1024})
    stage.lurcher(*front.options, app="flask_site:application")
    host = f"127.0.0.1:{front.port}"
    # Its cookies are for the host that it believes to ask.
    app = webtest.TestApp(f"http://{host}#httplib", extra_environ={"HTTP_HOST": host})
    wait_for("the site", lambda: app.get("/", expect_errors=True).status_int == 200, 30)
    yield app
    stage.clear_away()


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
