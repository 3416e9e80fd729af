"""The file SENDS_FILES as Flask sends it, conditionally, and as Django does, by a response and by its static view."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import django
import flask
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, HttpRequest
from django.urls import path, re_path
from django.views.static import serve

FILE = Path(os.environ["SENDS_FILES"])

flask_site = flask.Flask(__name__)


def from_flask() -> flask.Response:
    return flask.send_file(FILE, conditional=True, mimetype="application/octet-stream")


flask_site.add_url_rule("/flask", view_func=from_flask)


def from_django(_: HttpRequest) -> FileResponse:
    return FileResponse(FILE.open("rb"))


urlpatterns = [
    path("django", from_django),
    re_path(r"^static/(?P<path>.*)$", serve, {"document_root": FILE.parent}),
]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none")
django.setup()
django_site = get_wsgi_application()


def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    site: Any = flask_site if environ["PATH_INFO"] == "/flask" else django_site
    answer: Iterable[bytes] = site(environ, start)
    return answer
