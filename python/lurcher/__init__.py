"""Lurcher runs WSGI applications behind a front end that speaks the Mongrel2 protocol."""

from lurcher._native import ClientGone, RequestTimeout, __version__
from lurcher.script import serve

__all__ = ["ClientGone", "RequestTimeout", "__version__", "serve"]
