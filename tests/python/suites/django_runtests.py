"""Runs the tests of Django's source distribution with another live server: Lurcher, behind the front end that
SUITE_FRONT_END says.

In place of the server that a LiveServerThread makes in its thread there is one of the same face which starts child
processes, with the settings of that moment. The words given are those of Django's tests/runtests.py; `--client`
or `--client-chunks` before them lets Django's test client ask such a server as well, with bodies by length or in
chunks, instead of calling the application.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.db import connections
from django.http import HttpResponse
from django.test import testcases
from django.test.client import ClientHandler
from support.behind import behind

NAMES = """ALLOWED_HOSTS DEFAULT_AUTO_FIELD INSTALLED_APPS LANGUAGE_CODE LOGGING MEDIA_ROOT MEDIA_URL MIDDLEWARE
    ROOT_URLCONF SECRET_KEY SITE_ID STATICFILES_DIRS STATICFILES_FINDERS STATIC_ROOT STATIC_URL TEMPLATES USE_TZ"""


class LiveServer:
    """Lurcher, with the face of a ThreadedWSGIServer. Its handler is another of the kind given, made in the worker."""

    def __init__(self, port: int, static_handler: type | None) -> None:
        self.ended = threading.Event()
        self.directory = tempfile.TemporaryDirectory(prefix="lurcher-")
        told = {name: getattr(settings, name) for name in NAMES.split() if hasattr(settings, name)}
        told["DATABASES"] = {
            alias: {
                "ENGINE": connections[alias].settings_dict["ENGINE"],
                "NAME": str(connections[alias].settings_dict["NAME"]),
            }
            for alias in connections
        }
        kind = static_handler and f"{static_handler.__module__}.{static_handler.__qualname__}"
        live = {"settings": told, "static_handler": kind}
        self.site = behind(
            os.environ["SUITE_FRONT_END"],
            Path(self.directory.name),
            "django_live:application",
            env={
                "DJANGO_LIVE": json.dumps(live, default=str),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            at=port or None,
        )
        self.server_address = ("127.0.0.1", self.site.port)

    def set_app(self, handler: object) -> None:
        """Never mind the handler of this process."""

    def serve_forever(self) -> None:
        self.ended.wait()

    def shutdown(self) -> None:
        self.ended.set()

    def server_close(self) -> None:
        self.site.end()
        self.directory.cleanup()


class Asking:
    """In place of ClientHandler.__call__: sends the request which the environ stands for."""

    def __init__(self, chunks: bool) -> None:
        self.chunks = chunks
        self.server: LiveServer | None = None

    def __call__(self, environ: dict[str, Any]) -> HttpResponse:
        if self.server is None:
            self.server = LiveServer(0, None)
        body: bytes | Iterator[bytes] = (whole := environ["wsgi.input"].read())
        headers = {
            name.removeprefix("HTTP_").replace("_", "-"): value
            for name, value in environ.items()
            if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
        }
        headers["Host"] = environ["SERVER_NAME"]
        if self.chunks:
            headers.pop("CONTENT-LENGTH", None)
            body = (whole[at : at + 50_000] for at in range(0, len(whole), 50_000))
        connection = HTTPConnection("127.0.0.1", self.server.site.port, timeout=30)
        with closing(connection):
            connection.request(
                environ["REQUEST_METHOD"], quote(environ["PATH_INFO"]), body, headers
            )
            answer = connection.getresponse()
            response = HttpResponse(
                answer.read(), status=answer.status, content_type=answer.headers["Content-Type"]
            )
        vars(response)["wsgi_request"] = WSGIRequest(environ)
        return response

    def close(self) -> None:
        if self.server is not None:
            self.server.server_close()


if __name__ == "__main__":
    tests = Path.cwd()
    sys.path.insert(0, str(tests))
    testcases.LiveServerThread._create_server = lambda thread, connections_override=None: (
        LiveServer(thread.port, thread.static_handler)
    )
    asking = Asking(sys.argv[1] == "--client-chunks")
    if sys.argv[1].startswith("--client"):
        del sys.argv[1]
        ClientHandler.__call__ = lambda _, environ: asking(environ)
        # No transaction round a test: it would lock the other process out.
        testcases.TestCase._databases_support_transactions = classmethod(lambda _: False)
    sys.argv = [str(tests / "runtests.py"), *sys.argv[1:]]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        asking.close()
