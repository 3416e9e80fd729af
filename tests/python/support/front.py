"""A real Mongrel2 for a test: its own directory, identity and ports, configuration written from a template."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mongrel2 import Mongrel2, PortTakenError, free_ports
from support.rawhttp import Client, ClosedError, Response

TRIES = 5
PROTOCOLS = ("json", "tnetstring")

HANDLER = """
{name} = Handler(send_spec='{send_spec}', send_ident='{ident}', recv_spec='{recv_spec}', recv_ident='{ident}',
    protocol='{protocol}')
"""

SERVER = """
main = Server(uuid="{uuid}", name="main", default_host="localhost", bind_addr="127.0.0.1", port={port},
    pid_file="run/mongrel2.pid", access_log="logs/access.log", error_log="logs/error.log",
    control_port="ipc://run/control",
    hosts=[Host(name="localhost", routes={{ {routes} }})])
servers = [main]
settings = {{ {settings} }}
"""


@dataclass
class Link:
    """One handler's pair of endpoints, named as Mongrel2 does."""

    ident: str
    send_spec: str
    recv_spec: str

    @property
    def options(self) -> list[str]:
        """The words that connect Lurcher to it."""
        return ["--recv", self.send_spec, "--send", self.recv_spec]


class FrontEnd(Mongrel2):
    """Mongrel2 with one or several handlers, each with its link."""

    def __init__(self, directory: Path, config: str, links: list[Link]) -> None:
        super().__init__(directory, config)
        self.links = links
        self._beside: Client | None = None

    def beside(self, target: str) -> Response:
        """What it answers on a connection that is kept for such questions.

        When a client leaves amid a download, Mongrel2 may write what it still has for it to whoever connects next: it
        uses the descriptor again before it stops writing (seen with 1.12.2, also with the messages recorded: they are
        right). So who looks what became of such a client is not the next to connect.
        """
        try:
            return self._client().get(target)
        except ClosedError:
            self._forget()
            return self._client().get(target)

    def stop(self, seconds: float = 10.0) -> int:
        self._forget()
        return super().stop(seconds)

    def _client(self) -> Client:
        if self._beside is None:
            self._beside = Client(self.port, 110)
        return self._beside

    def _forget(self) -> None:
        if self._beside is not None:
            self._beside.close()
        self._beside = None

    @property
    def options(self) -> list[str]:
        return self.links[0].options


def start_front_end(
    directory: Path,
    protocol: str = "json",
    settings: Mapping[str, int | str] | None = None,
    routes: Sequence[str] = ("/",),
    handlers: int = 1,
    at: int | None = None,
) -> FrontEnd:
    """Starts one, at a port of its choice or `at` this one.

    Of several handlers the second serves the second route, and so on; the first serves the others.
    """
    for attempt in range(TRIES):
        free, *ports = free_ports(1 + 2 * handlers)
        port = at or free
        links = [
            Link(str(uuid.uuid4()), f"tcp://127.0.0.1:{sends}", f"tcp://127.0.0.1:{receives}")
            for sends, receives in zip(ports[::2], ports[1::2], strict=True)
        ]
        definitions = [
            HANDLER.format(name=f"h{i}", protocol=protocol, **vars(link))
            for i, link in enumerate(links)
        ]
        targets = [f"'{path}': h{i if i < handlers else 0}" for i, path in enumerate(routes)]
        chosen = {"zeromq.threads": 1, "server.daemonize": 0, **(settings or {})}
        server = SERVER.format(
            uuid=uuid.uuid4(),
            port=port,
            routes=", ".join(targets),
            settings=", ".join(
                f'"{key}": {value}' if isinstance(value, int) else f'"{key}": "{value}"'
                for key, value in chosen.items()
            ),
        )
        place = directory / f"mongrel2-{port}-{attempt}"
        front = FrontEnd(place, "".join(definitions) + server, links)
        try:
            front.start()
        except PortTakenError:
            continue
        return front
    raise AssertionError(f"no free ports after {TRIES} tries")
