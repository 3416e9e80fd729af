"""Everything a test sets up, and its clearing away."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.fake import FakeFrontEnd
from support.front import FrontEnd, start_front_end
from support.own import OwnFront
from support.process import APPS, COMMAND, Lurcher


class Stage:
    """Starts front ends and Lurcher in one directory, and ends them all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fronts: list[FrontEnd] = []
        self.fakes: list[FakeFrontEnd] = []
        self.lurchers: list[Lurcher] = []

    def mongrel2(
        self,
        protocol: str = "json",
        settings: Mapping[str, int | str] | None = None,
        routes: Sequence[str] = ("/",),
        handlers: int = 1,
        at: int | None = None,
    ) -> FrontEnd:
        """A real Mongrel2, ready."""
        front = start_front_end(self.directory, protocol, settings, routes, handlers, at)
        self.fronts.append(front)
        return front

    def mongrel2_for_uploads(self, at: int | None = None) -> tuple[FrontEnd, list[str]]:
        """One that takes larger bodies, and those in chunks, into files; and the words for Lurcher behind it."""
        front = self.mongrel2(
            settings={
                "limits.content_length": 1024 * 1024,
                "upload.temp_store": "tmp/upload.XXXXXX",
            },
            at=at,
        )
        (front.directory / "tmp").mkdir(exist_ok=True)
        return front, [*front.options, "--mongrel2-chroot", str(front.directory)]

    def fake(
        self, protocol: str = "json", subscribe: bool = True, ident: str | None = None
    ) -> FakeFrontEnd:
        """A front end made up of two sockets."""
        front = FakeFrontEnd(protocol, subscribe, ident)
        self.fakes.append(front)
        return front

    def lurcher(
        self,
        *options: str,
        app: str | None = "probe:application",
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = (str(COMMAND),),
        pass_fds: Sequence[int] = (),
    ) -> Lurcher:
        """`lurcher` with the words given, and the probe application unless another one (or none) is named."""
        words = list(options)
        if app is not None:
            words += ["--wsgi-app", app, "--app-path", str(APPS)]
        recording = {
            "PROBE_RECORD": str(self.directory / "record"),
            # Its control socket is found by the commands of this test, and by no others.
            "XDG_RUNTIME_DIR": str(self.directory),
        }
        lurcher = Lurcher(
            self.directory, words, {**recording, **(env or {})}, command, pass_fds=pass_fds
        )
        self.lurchers.append(lurcher)
        return lurcher

    def own_front(self, *options: str, path: str = "/", name: str = "f") -> OwnFront:
        """Our own front end, ready."""
        front = OwnFront(self.directory / name, options, path)
        self.lurchers.append(front.process)
        return front

    def command(self, *words: str, seconds: float = 20.0) -> subprocess.CompletedProcess[str]:
        """Runs `lurcher` with a command, as an operator would beside the instances of this stage."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("LURCHER_")}
        return subprocess.run(
            [str(COMMAND), *words],
            cwd=self.directory,
            env={**inherited, "XDG_RUNTIME_DIR": str(self.directory)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def record(self) -> list[str]:
        """The lines that the probe application has recorded so far."""
        try:
            return (self.directory / "record").read_text(encoding="latin-1").splitlines()
        except FileNotFoundError:
            return []

    def clear_away(self) -> None:
        """Each Lurcher that still runs must end with 0 when asked; none may have left a process behind, or panicked."""
        try:
            for lurcher in self.lurchers:
                began = time.monotonic()
                if lurcher.is_alive():
                    code = lurcher.stop()
                    assert code == 0, f"exit code {code}; it said:\n{lurcher.err()}"
                    took = time.monotonic() - began
                    assert took < 5, f"it took {took:.1f} s to end; it said:\n{lurcher.err()}"
                else:
                    lurcher.assert_no_orphans()
                assert "panicked" not in lurcher.err(), lurcher.err()
        finally:
            for lurcher in self.lurchers:
                lurcher.clear_away()
            for fake in self.fakes:
                fake.close()
            for front in self.fronts:
                front.stop()
