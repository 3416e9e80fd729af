"""Lurcher runs WSGI applications behind a front end that speaks the Mongrel2 protocol."""

from lurcher._native import ClientGone, __version__

__all__ = ["ClientGone", "__version__"]
