"""Many clients at once, each request with a number of its own that the answer must repeat."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from support.rawhttp import Client, ClosedError, request
from support.waiting import wait_for


@dataclass
class Outcome:
    """What became of one request."""

    number: int
    # "ok", "wrong" (somebody else's answer), "closed", "refused", "hung", or "status 502" and the like.
    what: str
    seconds: float
    detail: str = ""


class Load:
    """`clients` threads, each with one connection at a time, until stopped. A failed connection is opened again."""

    def __init__(
        self,
        port: int,
        clients: int = 32,
        target: Callable[[int], str] = lambda number: f"/number/{number}",
        keep_alive: bool = True,
        seconds: float = 15.0,
    ) -> None:
        self.port = port
        self.target = target
        self.keep_alive = keep_alive
        self.seconds = seconds
        self.outcomes: list[Outcome] = []
        self._numbers = itertools.count(1)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"client-{i}", daemon=True)
            for i in range(clients)
        ]

    def start(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def done(self) -> int:
        return len(self.outcomes)

    def succeeded(self) -> int:
        return sum(outcome.what == "ok" for outcome in list(self.outcomes))

    def wait_for_more(self, count: int, seconds: float = 30.0) -> None:
        """Until so many more requests than now have succeeded."""
        goal = self.succeeded() + count
        wait_for(f"{count} more answers", lambda: self.succeeded() >= goal, seconds)

    def wait_for_failures(self, count: int, seconds: float = 30.0) -> None:
        wait_for(f"{count} failures", lambda: len(self.failures()) >= count, seconds)

    def run_for(self, seconds: float) -> None:
        """Lets it run for a while."""
        self._stop.wait(seconds)

    def stop(self) -> list[Outcome]:
        """Lets each client finish its request and gives all outcomes."""
        self._stop.set()
        for thread in self._threads:
            thread.join(self.seconds + 5)
            assert not thread.is_alive(), f"{thread.name} hangs"
        return self.outcomes

    def failures(self) -> list[Outcome]:
        return [outcome for outcome in list(self.outcomes) if outcome.what != "ok"]

    def summary(self) -> str:
        return ", ".join(
            f"{what}: {n}" for what, n in Counter(o.what for o in self.outcomes).items()
        )

    def _run(self) -> None:
        client: Client | None = None
        while not self._stop.is_set():
            number = next(self._numbers)
            began = time.monotonic()
            detail = ""
            try:
                if client is None:
                    client = Client(self.port, self.seconds)
                what, detail = self._ask(client, number)
            except ClosedError as error:
                what, detail = "closed", repr(error.got[:200])
            except OSError as error:
                what, detail = "refused", str(error)
                self._stop.wait(0.01)
            except AssertionError as error:
                what, detail = "hung", str(error)
            self.outcomes.append(Outcome(number, what, time.monotonic() - began, detail))
            if client is not None and (what != "ok" or not self.keep_alive):
                client.close()
                client = None
        if client is not None:
            client.close()

    def _ask(self, client: Client, number: int) -> tuple[str, str]:
        headers = [] if self.keep_alive else [("Connection", "close")]
        client.send(request("GET", self.target(number), headers))
        response = client.response()
        if response.status != 200:
            return f"status {response.status}", repr(response.body[:200])
        if response.body != b"%d" % number:
            return "wrong", repr(response.body[:200])
        if not self.keep_alive:
            client.assert_closed()
        return "ok", ""
