"""What the extension module offers. Private: applications meet these objects in their environ."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, final

from typing_extensions import Buffer, Never

__all__ = [
    "Body",
    "ClientDisconnected",
    "ClientGone",
    "ErrorLog",
    "FileWrapper",
    "RequestTimeout",
    "StartResponse",
    "Worker",
    "Write",
    "__version__",
    "main",
]

__version__: str

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

class _Reads(Protocol):
    def read(self, size: int, /) -> bytes: ...

class ClientGone(ConnectionError):
    """The client has left: what is written can no longer reach it."""

class RequestTimeout(BaseException):
    """The request takes longer than --request-timeout; its client has been answered."""

@final
class Worker:
    """One worker process."""

    def __new__(cls, bridge_fd: int, board_fd: int) -> Worker: ...
    @property
    def wsgi_app(self) -> str:
        """What to load."""
    @property
    def app_path(self) -> Path:
        """Where to load it from."""
    @property
    def threads(self) -> int:
        """How many slots to run."""
    @property
    def lint(self) -> bool:
        """Whether the application is to be wrapped in the reference checker."""
    @property
    def on_worker_start(self) -> str | None:
        """What to call before the first request."""
    @property
    def on_worker_stop(self) -> str | None:
        """What to call after the last request."""
    def log_error(self, title: str, text: str) -> None:
        """Write an error of several lines into the log."""
    def ready(self) -> None:
        """Tell the instance that the application is loaded."""
    def load_failed(self, traceback: str) -> None:
        """Tell the instance that the application cannot be loaded, and why."""
    def leave(self) -> None:
        """Ask the instance to be drained. Further calls do nothing."""
    def abandon(self) -> None:
        """Take no requests and answer none: for a process that the application has forked."""
    def run_slot(self, number: int, application: Callable[..., Any]) -> None:
        """Serve as slot `number` (from 0) until there are no more requests."""
    def watch(self) -> None:
        """Answer what the instance asks about the slots, until `end_watch` is called."""
    def end_watch(self) -> None:
        """End `watch`."""
    def finish(self) -> None:
        """Write out what is left, when all slots have ended."""

@final
class StartResponse:
    """The start_response callable of one request."""

    def __call__(
        self,
        status: str,
        response_headers: list[tuple[str, str]],
        exc_info: _ExcInfo | None = None,
    ) -> Write: ...

@final
class Write:
    """The write callable that start_response returns."""

    def __call__(self, data: bytes) -> None: ...

@final
class ErrorLog:
    """wsgi.errors: a text stream into the log."""

    def write(self, text: str) -> int:
        """Write a string; give the number of characters."""
    def writelines(self, lines: Iterable[str]) -> None:
        """Write each string of an iterable."""
    def flush(self) -> None:
        """Put an unfinished line into the log."""

@final
class FileWrapper:
    """wsgi.file_wrapper: blocks of anything that has read()."""

    def __new__(cls, filelike: _Reads, blksize: int = 8192) -> FileWrapper: ...
    def __iter__(self) -> FileWrapper: ...
    def __next__(self) -> bytes: ...
    def seekable(self) -> bool:
        """Whether the file can be sought in."""
    def seek(self, offset: int, whence: int = 0) -> int:
        """The file's own seek."""
    def tell(self) -> int:
        """The file's own tell."""
    def close(self) -> None:
        """Close the file, once, if it can be closed."""

@final
class Body:
    """wsgi.input of a body that comes while it is read."""

    def read(self, size: int | None = None, /) -> bytes:
        """Read that many bytes, less only at the end of the body; without a size, all that is left."""
    def read1(self, size: int | None = None, /) -> bytes:
        """Read what is there, at most that many bytes."""
    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer with what is there; give the number of bytes."""
    def readline(self, size: int | None = None, /) -> bytes:
        """Read a line with its end, at most that many bytes."""
    def readlines(self, hint: int | None = None, /) -> list[bytes]:
        """Read lines until they have at least that many bytes."""
    def __iter__(self) -> Body: ...
    def __next__(self) -> bytes: ...
    def close(self) -> None:
        """End reading. What has not been read is thrown away."""
    @property
    def closed(self) -> bool: ...
    def readable(self) -> bool: ...
    def writable(self) -> bool: ...
    def seekable(self) -> bool: ...

@final
class ClientDisconnected:
    """lurcher.client_disconnected: whether the client of one request has left."""

    def __call__(self, *args: Never, **kwargs: Never) -> bool: ...

def main(args: list[str], executable: str, flags: list[str]) -> int:
    """Run a command line. Give the exit code."""
