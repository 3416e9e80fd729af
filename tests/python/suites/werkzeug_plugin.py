"""A pytest plugin for Werkzeug's own tests: what they start is Lurcher, not Werkzeug's server.

SUITE_FRONT_END says behind which front end.
"""

from __future__ import annotations

import http.client
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.behind import behind

# What may be asked of any server: to serve, and to have threads.
APPLIES = {"port", "threaded"}


@pytest.fixture(autouse=True)
def _behind_a_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = sys.modules["conftest"].DevServerClient

    def enter(client: Any) -> Any:
        if beyond := sorted(set(client._server_kwargs) - APPLIES):
            pytest.skip(f"an option of Werkzeug's own server: {', '.join(beyond)}")
        apps = Path(sys.modules["conftest"].__file__ or "").parent / "live_apps"
        client.site = behind(
            os.environ["SUITE_FRONT_END"],
            client._tmp_path,
            f"{client._app_name}_app:app",
            app_path=apps,
        )
        client.addr = f"127.0.0.1:{client.site.port}"
        client.url = client.site.base
        return client

    def leave(client: Any, *_: object) -> None:
        client.site.end()

    def connect(client: Any, **more: Any) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(client.addr, timeout=20, **more)
        if client._app_name == "streaming" and not client._server_kwargs.get("threaded"):
            # Werkzeug's server speaks HTTP/1.0 unless it has threads; here it is the client who does.
            vars(connection).update(_http_vsn=10, _http_vsn_str="HTTP/1.0")
        return connection

    monkeypatch.setattr(theirs, "__enter__", enter)
    monkeypatch.setattr(theirs, "__exit__", leave)
    monkeypatch.setattr(theirs, "connect", connect)
    monkeypatch.setattr(theirs, "read_log", lambda client: client.site.lurcher.err())
