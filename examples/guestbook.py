"""A form and its echo: reads a POST body and a cookie, answers with HTML. Keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs

LONGEST_FORM = 16 * 1024

PAGE = """<!DOCTYPE html>
<title>Guest book</title>
<p>{greeting}</p>
<form method="post">
  <input name="name" placeholder="your name"> <button>sign</button>
</form>
"""


def name_in_form(environ: dict[str, Any]) -> str:
    """The `name` field of a posted form, or an empty text."""
    length = min(int(environ.get("CONTENT_LENGTH") or 0), LONGEST_FORM)
    form = parse_qs(environ["wsgi.input"].read(length).decode("utf-8", "replace"))
    return str(form.get("name", [""])[0])


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Shows the form; a posted name is greeted and remembered in a cookie."""
    headers = [("Content-Type", "text/html; charset=utf-8")]
    cookies = SimpleCookie(environ.get("HTTP_COOKIE", ""))
    if environ["REQUEST_METHOD"] == "POST":
        name = name_in_form(environ)
        cookie = SimpleCookie({"guest": name})
        headers.append(("Set-Cookie", cookie["guest"].OutputString()))
        greeting = f"Welcome, {name}!"
    elif "guest" in cookies:
        greeting = f"Welcome back, {cookies['guest'].value}!"
    else:
        greeting = "Please sign."
    body = PAGE.format(greeting=escape(greeting)).encode()
    start_response("200 OK", [*headers, ("Content-Length", str(len(body)))])
    return [body]
