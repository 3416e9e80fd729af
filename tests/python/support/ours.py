"""Our own front end as a process: `lurcher front`, with ports of its own choice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mongrel2 import free_ports
from support.process import Lurcher
from support.waiting import wait_for

LISTENING = re.compile(r"listening at 127\.0\.0\.1:(\d+)$", re.MULTILINE)
TRIES = 5


class OurFront:
    """`lurcher front`, ready. Its files go below `directory`/ours, uploads into `tmp` there."""

    def __init__(
        self,
        directory: Path,
        protocol: str = "json",
        routes: Sequence[str] = ("/",),
        options: Sequence[str] = (),
    ) -> None:
        """Starts it. Each route has endpoints of its own."""
        self.directory = directory / "ours"
        (self.directory / "tmp").mkdir(parents=True, exist_ok=True)
        self.ident = "0123-front"
        for _ in range(TRIES):
            ports = free_ports(2 * len(routes))
            self.links = [
                (f"tcp://127.0.0.1:{sends}", f"tcp://127.0.0.1:{receives}")
                for sends, receives in zip(ports[::2], ports[1::2], strict=True)
            ]
            words = ["front", "--bind", "127.0.0.1:0", "--protocol", protocol]
            words += ["--ident", self.ident]
            for route, (sends, receives) in zip(routes, self.links, strict=True):
                words += ["--route", f"{route}={sends},{receives}"]
            self.process = Lurcher(self.directory, [*words, *options])
            if self._listens():
                return
        raise AssertionError(f"no free ports after {TRIES} tries")

    def _listens(self) -> bool:
        """Whether it has come up; false if somebody else was quicker at one of its ports."""

        def look() -> bool:
            return not self.process.is_alive() or LISTENING.search(self.process.err()) is not None

        wait_for("the front end to listen", look, 20)
        found = LISTENING.search(self.process.err())
        if found is None:
            assert "in use" in self.process.err(), self.process.err()
            return False
        self.port = int(found[1])
        return True
