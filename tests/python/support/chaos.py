"""Faults on purpose, under load, and the books that must balance afterwards.

Clients send requests of many kinds, each with a number, and note what they saw. Meanwhile workers are killed, stopped
and made to crash, the instance is told to reload and to scale, and Mongrel2 is restarted. Then what the clients saw is
held against the access log and against what the application recorded. Everything that is drawn comes from one seed;
what time makes of it does not, so that a seed repeats the actions, not the run.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from support.front import FrontEnd
from support.process import Lurcher
from support.rawhttp import Client, ClosedError, Response, get, request
from support.stage import Stage
from support.waiting import wait_for

CLIENTS = 12
WORKERS, MOST_WORKERS, THREADS = 2, 4, 4
PATIENCE = 25.0
# What may still be there of memory that was in use, in KiB: the allocator keeps some.
ALLOWANCE = 48 * 1024
LINE = re.compile(rb'"(?:GET|POST) /(\w+)/(\d+)\S* HTTP/1\.1" (\d+|-) ')

OPTIONS = [
    *("--workers", str(WORKERS), "--threads", str(THREADS)),
    *("--request-timeout", "2s", "--request-grace", "500ms"),
    *("--worker-timeout", "2s", "--queue-timeout", "4s", "--graceful-timeout", "5s"),
]


@dataclass
class Kind:
    """One kind of request."""

    name: str
    weight: int
    query: Callable[[random.Random], str] = lambda _: ""
    # The status when nothing happens to it; None if it cannot have a whole answer.
    status: int | None = 200
    right: Callable[[Response, int], bool] = lambda _, __: True
    # Whether its answer comes in parts, so that it can be cut.
    in_parts: bool = False


def _is_number(response: Response, number: int) -> bool:
    return response.body == b"%d" % number


KINDS = [
    Kind("number", 50, right=_is_number),
    Kind("number", 20, lambda rng: f"?ms={rng.randint(5, 400)}", right=_is_number),
    # Longer than a request may take.
    Kind("number", 1, lambda _: "?ms=6000", None),
    Kind("stream", 6, lambda rng: f"?count={rng.randint(1, 8)}&size=2000&ms=20", in_parts=True),
    Kind("big", 4, lambda rng: f"?mb={rng.randint(1, 4)}", in_parts=True),
    Kind("echo", 8, right=lambda response, number: response.body == b"%d " % number * 1000),
    Kind("raise", 4, lambda rng: f"?when={rng.choice(['before', 'after'])}", 500),
    Kind("raise", 2, lambda _: "?when=middle", None, in_parts=True),
    Kind("die", 1, lambda rng: f"?how={rng.choice(['kill', 'exit'])}", None),
    Kind("segv", 1, status=None),
]


@dataclass
class Seen:
    """What a client saw of one request."""

    number: int
    kind: Kind
    began: float
    ended: float = 0.0
    # "answered", "closed" (before or in its answer), "refused" (no connection), "aborted" (by the client itself),
    # "wrong", "hung".
    what: str = ""
    status: int = 0
    detail: str = ""


@dataclass
class Books:
    """Everything that was noted."""

    seen: list[Seen] = field(default_factory=list)
    # When Mongrel2 was down, or its clients had not noticed yet.
    restarts: list[tuple[float, float]] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)


class Chaos:
    """One run."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.rng = random.Random(seed)
        self.front: FrontEnd = stage.mongrel2()
        self.log = stage.directory / "access.log"
        words = [*self.front.options, "--access-log", str(self.log), *OPTIONS]
        self.lurcher: Lurcher = stage.lurcher(*words, app="chaotic:application")
        self.lurcher.wait_for_workers(WORKERS)
        self.books = Books()
        self.numbers = itertools.count(1)
        self.over = threading.Event()
        self.wanted = WORKERS
        # Stopped processes, and when they go on.
        self.stopped: list[tuple[float, int]] = []

    def run(self, seconds: float) -> None:
        """Chaos for so long, then calm; fails if something is not as it should be."""
        self._calm()
        before = self._held()
        clients = [
            threading.Thread(target=self._client, args=(random.Random(self.rng.random()),))
            for _ in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        try:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                self._act()
                self.over.wait(self.rng.uniform(0.2, 1.5))
        finally:
            self.over.set()
            self._go_on(all_of_them=True)
            for client in clients:
                client.join(PATIENCE + 10)
        assert not any(client.is_alive() for client in clients), "a client hangs"
        self._rescale()
        self._calm()
        self.check_books()
        self._check_left(before)

    # ---- What is done to it

    def _act(self) -> None:
        self._go_on()
        actions: list[tuple[Callable[[], str], int]] = [
            (lambda: self._signal(signal.SIGKILL), 4),
            (lambda: self._signal(signal.SIGSEGV), 2),
            (self._stop, 3),
            (self._reload, 3),
            (self._scale, 4),
            (self._restart, 1),
        ]
        (action,) = self.rng.choices([a for a, _ in actions], [w for _, w in actions])
        self.books.actions.append(f"{time.monotonic():.3f} {action()}")

    def _worker(self) -> int | None:
        pids = sorted(self.lurcher.worker_pids())
        return self.rng.choice(pids) if pids else None

    def _signal(self, number: signal.Signals) -> str:
        pid = self._worker()
        if pid is not None:
            _kill(pid, number)
        return f"{number.name} to {pid}"

    def _stop(self) -> str:
        pid = self._worker()
        pause = self.rng.choice([0.1, 0.5, 1.0, 6.0])
        if pid is not None:
            _kill(pid, signal.SIGSTOP)
            self.stopped.append((time.monotonic() + pause, pid))
        return f"SIGSTOP to {pid} for {pause} s"

    def _go_on(self, all_of_them: bool = False) -> None:
        now = time.monotonic()
        due = [pid for at, pid in self.stopped if all_of_them or at <= now]
        self.stopped = [(at, pid) for at, pid in self.stopped if pid not in due]
        living = self.lurcher.worker_pids()
        for pid in due:
            if pid in living:
                _kill(pid, signal.SIGCONT)

    def _reload(self) -> str:
        self.lurcher.send_signal(signal.SIGHUP)
        return "reload"

    def _scale(self) -> str:
        more = self.rng.random() < 0.5
        if more and self.wanted < MOST_WORKERS:
            self.wanted += 1
            self.lurcher.send_signal(signal.SIGTTIN)
        elif not more and self.wanted > 1:
            self.wanted -= 1
            self.lurcher.send_signal(signal.SIGTTOU)
        # Signals of one kind that come at once are one signal.
        time.sleep(0.1)
        return f"scale to {self.wanted}"

    def _rescale(self) -> None:
        while self.wanted != WORKERS:
            more = self.wanted < WORKERS
            self.lurcher.send_signal(signal.SIGTTIN if more else signal.SIGTTOU)
            self.wanted += 1 if more else -1
            time.sleep(0.1)

    def _restart(self) -> str:
        began = time.monotonic()
        how = self.rng.choice(["stop", "kill"])
        getattr(self.front, how)()
        self.front.start()
        self.books.restarts.append((began, time.monotonic() + 0.5))
        return f"restart of Mongrel2 ({how})"

    # ---- Clients

    def _client(self, rng: random.Random) -> None:
        client: Client | None = None
        while not self.over.is_set():
            (kind,) = rng.choices(KINDS, [kind.weight for kind in KINDS])
            seen = Seen(next(self.numbers), kind, time.monotonic())
            abort = rng.random() < 0.03
            keep = False
            try:
                if client is None:
                    client = Client(self.front.port, PATIENCE)
                keep = self._ask(
                    client, seen, kind.query(rng), rng.uniform(0, 0.2) if abort else None
                )
            except ClosedError as error:
                seen.what, seen.detail = "closed", repr(error.got[:100])
            except OSError as error:
                seen.what, seen.detail = "refused", str(error)
                self.over.wait(0.05)
            except AssertionError as error:
                seen.what, seen.detail = "hung", str(error)
            seen.ended = time.monotonic()
            self.books.seen.append(seen)
            if client is not None and not keep:
                client.close()
                client = None
        if client is not None:
            client.close()

    def _ask(self, client: Client, seen: Seen, query: str, abort: float | None) -> bool:
        """Sends one request; says whether the connection may be used for another one."""
        number, kind = seen.number, seen.kind
        body = b"%d " % number * 1000 if kind.name == "echo" else None
        method = "GET" if body is None else "POST"
        client.send(request(method, f"/{kind.name}/{number}{query}", (), body))
        if abort is not None:
            self.over.wait(abort)
            client.reset()
            seen.what = "aborted"
            return False
        response = client.response(method)
        seen.what, seen.status = "answered", response.status
        if response.status == kind.status and not kind.right(response, number):
            seen.what, seen.detail = "wrong", repr(response.body[:100])
        return response.status < 502 and response.header("Connection") != "close"

    # ---- What must be so afterwards

    def _calm(self) -> None:
        """Until as many workers as are wanted serve, all slots at once."""
        pids = self.lurcher.wait_for_workers(WORKERS, 60)
        together = WORKERS * THREADS

        def all_at_once() -> bool:
            began = time.monotonic()
            with ThreadPoolExecutor(together) as pool:
                numbers = [next(self.numbers) for _ in range(together)]
                answers = list(
                    pool.map(lambda n: get(self.front.port, f"/number/{n}?ms=1000"), numbers)
                )
            ok = all(answer.status == 200 for answer in answers)
            # One after the other it would be two seconds at least.
            return ok and time.monotonic() - began < 1.9

        wait_for("all slots to be free", all_at_once, 90)
        wait_for("the same workers", lambda: self.lurcher.worker_pids() != [], 20)
        assert len(pids) == WORKERS

    def _held(self) -> tuple[list[str], int]:
        """What the instance holds: its descriptors by what they are, and its memory in KiB."""
        place = Path(f"/proc/{self.lurcher.pid}")
        held = []
        for entry in os.scandir(place / "fd"):
            try:
                held.append(re.sub(r"\d+", "", os.readlink(entry.path)))
            except OSError:
                continue
        status = (place / "status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return sorted(held), int(found[1]) if found else 0

    def _check_left(self, before: tuple[list[str], int]) -> None:
        # Connections of clients that have just gone, and processes that have just ended, take a moment.
        wait_for(
            "only the descriptors that were there before",
            lambda: Counter(self._held()[0]) <= Counter(before[0]),
            20,
        )
        grown = self._held()[1] - before[1]
        assert grown < ALLOWANCE, f"the instance has grown by {grown} KiB"
        count = len(self.lurcher.processes())
        assert count == 1 + WORKERS, f"{count} processes"
        assert self.lurcher.is_alive(), self.lurcher.err()
        said = self.lurcher.err()
        for bad in ("panicked", "bridge closed", "fault of ours"):
            assert bad not in said, said

    def check_books(self) -> None:
        """Holds what clients saw against the access log and the application's record."""
        faults = list(itertools.islice(self._faults(), 20))
        shown = "\n".join([*faults, "", *self.books.actions[-400:]])
        assert not faults, f"{self.summary()}\n{shown}"

    def _faults(self) -> list[str]:
        told: dict[int, list[int]] = {}
        for line in self.log.read_bytes().splitlines():
            found = LINE.search(line)
            assert found, line
            told.setdefault(int(found[2]), []).append(int(found[3].replace(b"-", b"0")))
        begun = Counter(
            int(line.split()[1]) for line in self.stage.record() if line.startswith("begun ")
        )
        faults = [f"{n} was run {times} times" for n, times in begun.items() if times > 1]
        faults += [f"{n} is in the log as {told[n]}" for n in told if len(told[n]) > 1]
        for seen in self.books.seen:
            why = self._fault(seen, told.get(seen.number, []), begun[seen.number])
            if why:
                faults.append(
                    f"{why}: {seen}, log {told.get(seen.number)}, run {begun[seen.number]}"
                )
        return faults

    def _fault(self, seen: Seen, told: list[int], begun: int) -> str | None:
        """What is wrong with one request, if something is."""
        status = told[0] if told else None
        down = any(seen.began <= until and seen.ended >= at for at, until in self.books.restarts)
        match seen.what:
            case "answered" if status != seen.status:
                # Mongrel2 itself answers these when it has no handler.
                by_itself = status is None and not begun and seen.status in (404, 502, 503)
                return None if down and by_itself else "the log has another answer"
            case "answered" if seen.status not in (seen.kind.status, 502, 503, 504):
                return "no answer for this kind"
            case "answered" | "aborted":
                return None
            case "closed" if down:
                return None
            case "closed" if status is None:
                return "closed without an answer, and the log knows nothing"
            case "closed" if status == 200 and seen.kind.status == 200 and begun:
                return "cut, and the log has it as a whole"
            case "closed":
                return None if seen.kind.in_parts else "closed, but it should have an answer"
            case "refused":
                return None if down else "no connection"
            case "hung" if self._stray(seen):
                return None
            case _:
                return f"it is {seen.what}"

    def _stray(self, seen: Seen) -> bool:
        """Whether it got what Mongrel2 had left for a client that has just gone amid an answer: see `FrontEnd.beside`.

        Our own answers to the wrong client would come at other times too.
        """
        return seen.detail.startswith("no status line") and any(
            other.kind.in_parts
            and other.what in ("aborted", "closed")
            and seen.began - 1 <= other.ended <= seen.ended
            for other in self.books.seen
            if other is not seen
        )

    def summary(self) -> str:
        """How many of what."""
        seen = self.books.seen
        ends = Counter(s.what if s.what != "answered" else str(s.status) for s in seen)
        counts = ", ".join(f"{what}: {n}" for what, n in sorted(ends.items()))
        acts = Counter(action.split()[1] for action in self.books.actions)
        done = ", ".join(f"{what}: {n}" for what, n in sorted(acts.items()))
        return f"{len(seen)} requests ({counts}); actions: {done}"


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
