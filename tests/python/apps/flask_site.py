"""A Flask application with what web applications do, for tests/python/suites."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flask import (
    Flask,
    Response,
    jsonify,
    make_response,
    redirect,
    request,
    send_file,
    session,
    stream_with_context,
    url_for,
)

FILES = Path(os.environ.get("FLASK_SITE_FILES") or tempfile.mkdtemp())
ENDED: list[int] = []

application = Flask(__name__)
application.secret_key = "not secret"
application.config["MAX_CONTENT_LENGTH"] = 32 * 1024 * 1024


@application.get("/")
def index() -> str:
    return f"{request.url} {request.remote_addr} {request.is_secure}"


@application.get("/stream")
def stream() -> Response:
    def lines() -> Iterator[str]:
        try:
            for number in range(request.args.get("count", 5, int)):
                yield f"data: {request.path} {number}\n\n"
                time.sleep(request.args.get("pause", 0.0, float))
        finally:
            ENDED.append(1)

    return Response(stream_with_context(lines()), mimetype="text/event-stream")


@application.get("/ended")
def ended() -> Any:
    return jsonify(len(ENDED))


@application.post("/files")
def upload() -> Any:
    file = request.files["file"]
    name = os.path.basename(file.filename or "unnamed")
    file.save(FILES / name)
    return redirect(url_for("download", name=name), 303)


@application.get("/files/<name>")
def download(name: str) -> Any:
    return send_file(FILES / os.path.basename(name), as_attachment=True, conditional=True)


@application.route("/digest", methods=["POST", "PUT"])
def digest() -> Any:
    found, size = hashlib.sha256(), 0
    while block := request.stream.read(50_000):
        found.update(block)
        size += len(block)
    return jsonify(digest=found.hexdigest(), size=size, length=request.content_length)


@application.get("/login")
def login() -> Any:
    session["who"] = "caf\u00e9"
    response = make_response("in")
    for number in range(5):
        response.set_cookie(f"c{number}", f"v{number}", httponly=True, samesite="Lax")
    return response


@application.get("/who")
def who() -> Any:
    return jsonify(who=session.get("who"), cookies=dict(request.cookies))


@application.get("/headers")
def headers() -> Any:
    return jsonify(list(map(list, request.headers)))


@application.get("/query")
def query() -> Any:
    return jsonify(raw=request.environ["QUERY_STRING"], parsed=request.args.to_dict(flat=False))


@application.post("/form")
def form() -> Any:
    return jsonify(request.form.to_dict(flat=False))


@application.post("/json")
def json() -> Any:
    return jsonify(request.get_json())


@application.get("/fails")
def fails() -> str:
    raise RuntimeError("on purpose")


@application.get("/fails-late")
def fails_late() -> Response:
    def body() -> Iterator[bytes]:
        yield b"begun"
        raise RuntimeError("on purpose, late")

    return Response(body())


@application.get("/nothing")
def nothing() -> tuple[str, int]:
    return "", 204


@application.get("/slow")
def slow() -> str:
    time.sleep(0.5)
    return "slow"
