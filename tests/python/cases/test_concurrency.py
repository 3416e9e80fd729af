"""Isolation, threads, processes, the interpreter's end: whatever an application does costs one request at most."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.process import is_worker
from support.rawhttp import ClosedError, get
from support.served import Served, served
from support.stage import Stage
from support.waiting import wait_for

THREADS = 4
SLOTS = {f"lurcher-slot-{number}" for number in range(1, THREADS + 1)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One worker with four slots, which must be the same to the end."""
    site = served(tmp_path_factory.mktemp("site"), "isolation:app")
    pids = site.lurcher.wait_for_workers(1)
    site.text("/hello")
    yield site
    all_slots_serve(site)
    assert site.lurcher.worker_pids() == pids
    said = site.lurcher.err()
    for words in ("unsendable", "panicked", "Fatal", "deadlock"):
        assert words not in said
    site.stage.clear_away()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    """For tests that need a Lurcher of their own."""
    stage = Stage(tmp_path)
    yield stage
    stage.clear_away()


def all_slots_serve(site: Served) -> None:
    """Comes back only if four requests are at work at the same time, so no slot is lost and none waits for another."""
    conns = [site.send("/wait-for-all") for _ in range(THREADS)]
    names = {site.answer(conn).body.decode() for conn in conns}
    assert names == SLOTS


def counts(site: Served) -> dict[str, int]:
    found: dict[str, int] = json.loads(site.text("/counts"))
    return found


# ---- What a request raises


ERRORS = [
    "SystemExit",
    "SystemExitNone",
    "SystemExitText",
    "KeyboardInterrupt",
    "GeneratorExit",
    "CancelledError",
    "StopIteration",
    "StopAsyncIteration",
    "RecursionError",
    "MemoryError",
    "BrokenPipeError",
    "BaseException",
    "Hostile",
]


@pytest.mark.parametrize("error", ERRORS)
def test_c10_c11_b25_any_exception_anywhere_costs_one_request(site: Served, error: str) -> None:
    (pid,) = site.lurcher.worker_pids()
    name = error.removesuffix("None").removesuffix("Text")
    for where in ("call", "after", "iter"):
        answer = site.ask(f"/fail?{where},{error}")
        assert (answer.status, answer.body) == (500, b"500 Internal Server Error\n"), where
        site.lurcher.wait_for_err(f"GET /fail?{where},{error}")
    if error not in ("StopIteration",):
        # In an iterator that one is the end, and no error.
        assert site.ask(f"/fail?next,{error}").status == 500
        assert site.is_cut(site.send(f"/fail?late,{error}"))
    # The head is out by then.
    assert site.is_cut(site.send(f"/fail?close,{error}"))
    wait_for(f"the traceback of {name}", lambda: name in site.lurcher.err())
    assert site.lurcher.worker_pids() == [pid]


@pytest.mark.parametrize("error", ["SystemExit", "RecursionError", "Hostile"])
@pytest.mark.parametrize("where", ["len", "lie", "bool", "del"])
def test_c10_hostile_methods_that_nobody_must_call_change_nothing(
    site: Served, where: str, error: str
) -> None:
    answer = site.ask(f"/fail?{where},{error}")
    assert (answer.status, answer.body, answer.closed) == (200, b"part", False)


def test_c10_looking_for_close_may_fail(site: Served) -> None:
    assert site.is_cut(site.send("/fail?attribute,SystemExit"))


def test_c10_the_close_of_a_failed_iteration_runs_once(site: Served) -> None:
    for where in ("iter", "next", "late", "close", "len", "del"):
        before = counts(site).get("closed", 0)
        site.heard(site.send(f"/fail?{where},SystemExit"))
        assert counts(site)["closed"] == before + 1, where


def test_b13_a_list_that_lies_is_iterated(site: Served) -> None:
    answer = site.ask("/rude")
    assert (answer.status, answer.body, answer.header("Content-Length")) == (200, b"ab", None)


def test_c10_two_hundred_failures_leave_all_slots(site: Served) -> None:
    ways = ["call", "after", "iter", "next", "late", "close", "len", "bool", "del", "attribute"]
    conns = [
        site.send(f"/fail?{ways[number % len(ways)]},{ERRORS[number % len(ERRORS)]}")
        for number in range(200)
    ]
    for conn in conns:
        site.heard(conn)
    all_slots_serve(site)


@pytest.mark.parametrize("how", ["exit", "quit"])
def test_sys_exit_never_ends_a_worker(site: Served, how: str) -> None:
    (pid,) = site.lurcher.worker_pids()
    assert site.ask(f"/leave?{how}").status == 500
    assert site.lurcher.worker_pids() == [pid]


@pytest.mark.parametrize("how", ["in-thread", "interrupt-main"])
def test_sys_exit_in_a_thread_and_an_interrupt_reach_no_request(site: Served, how: str) -> None:
    (pid,) = site.lurcher.worker_pids()
    assert site.text(f"/leave?{how}") == "went on"
    all_slots_serve(site)
    assert site.lurcher.worker_pids() == [pid]


def test_sys_exit_in_a_generator_cuts_its_response(site: Served) -> None:
    assert site.is_cut(site.send("/leave?in-generator"))


def test_c12_deep_recursion_is_an_exception(site: Served) -> None:
    (pid,) = site.lurcher.worker_pids()
    conns = [site.send("/recurse") for _ in range(THREADS * 2)]
    assert {site.answer(conn).status for conn in conns} == {500}
    assert site.lurcher.worker_pids() == [pid]


def test_c12_a_stack_that_overflows_costs_its_worker_at_most(place: Stage) -> None:
    site = Served(place, "isolation:app", ["--workers", "2"])
    site.lurcher.wait_for_workers(2)
    others = [site.send("/hello") for _ in range(10)]
    # 500 where the interpreter counts its C frames, 502 where it does not and the process dies.
    assert site.ask("/recurse-in-c").status in (500, 502)
    assert {site.answer(conn).status for conn in others} <= {200, 502}
    site.lurcher.wait_for_workers(2)
    assert site.text("/hello") == "hello"


# ---- What a request is given


def test_each_request_has_a_context_of_its_own(site: Served) -> None:
    conns = [site.send(f"/context?{number}") for number in range(40)]
    sizes = set()
    for number, conn in enumerate(conns):
        before, inside, size = site.answer(conn).body.decode().split(",")
        assert (before, inside) == ("unset", str(number))
        sizes.add(size)
    # Nothing of an earlier request stands in it.
    assert sizes == {"1"}


def test_each_request_has_things_of_its_own(site: Served) -> None:
    for conn in [site.send("/own-things", "POST", body=b"x") for _ in range(THREADS)]:
        assert site.answer(conn).json() == []


@pytest.mark.parametrize("where", ["here", "elsewhere", "between"])
@pytest.mark.parametrize("how", ["", "raise", "stream"])
def test_what_is_kept_raises_and_reaches_no_other_response(
    site: Served, how: str, where: str
) -> None:
    assert site.ask(f"/keep?{how}", "POST", body=b"abc").status == (500 if how == "raise" else 200)
    answer = site.ask(f"/use-kept?{where}")
    assert answer.header("X-Stray") is None
    assert b"stray" not in answer.body
    assert answer.status == 200
    raised = json.loads(answer.body.removeprefix(b"first,"))
    assert raised == {
        "start": "RuntimeError",
        "start_exc_info": raised["start_exc_info"],
        "write": "RuntimeError",
        "write_nothing": "RuntimeError",
        "input": "ValueError",
    }
    # The exception that was handed over, or that there is no such request any more.
    assert raised["start_exc_info"] in ("ValueError", "RuntimeError")
    site.lurcher.wait_for_err("application: kept errors still speak")


def test_c03_what_was_given_may_be_dropped_by_any_thread(site: Served) -> None:
    conns = [site.send("/drop-elsewhere", "POST", body=b"x" * 1000) for _ in range(100)]
    assert {site.answer(conn).body for conn in conns} == {b"dropped"}


def test_c20_nothing_is_kept_of_a_request(place: Stage) -> None:
    """The same mix of requests again and again: no object more, no reference more."""
    site = Served(place, "isolation:app", ["--threads", "1"])
    mix: list[dict[str, Any]] = [
        {"target": "/hello"},
        {"target": "/hello", "method": "HEAD"},
        {"target": "/hello", "version": "HTTP/1.0"},
        {"target": "/post", "method": "POST", "body": b"x" * 3000},
        {"target": "/context?1"},
        {"target": "/rude"},
        {"target": "/local"},
        {"target": "/drop-elsewhere"},
        {"target": "/unusual", "headers": {b"x-unusual": b"1", b"host": b"a:b"}},
        *[
            {"target": f"/fail?{where},{error}"}
            for where in ("call", "next", "late", "close")
            for error in ("SystemExit", "RecursionError", "BrokenPipeError")
        ],
    ]

    def round_of(count: int) -> dict[str, int]:
        for _ in range(count):
            for options in mix:
                site.heard(site.send(**options), options.get("method", "GET"))
            # What it has heard is no part of this test.
            site.fake.replies.clear()
        found: dict[str, int] = json.loads(site.text("/usual"))
        return found

    round_of(5)
    before = round_of(2)
    after = round_of(20)
    requests = 20 * len(mix)
    for name, number in after.items():
        # One reference or object a request would be 420 more; caches of the interpreter breathe.
        assert number - before[name] < requests / 10, (name, before, after)


def test_c21_descriptors_and_threads_are_given_back(site: Served) -> None:
    mix = ["/hello", "/fail?late,SystemExit", "/run-asyncio", "/run-subprocess", "/threads"]
    for target in mix:
        site.heard(site.send(target))
    before = counts(site)
    for target in mix * 10:
        site.heard(site.send(target))
    after = counts(site)
    assert (after["fds"], after["threads"]) == (before["fds"], before["threads"])


# ---- Threads


def test_slots_have_names_and_python_knows_them(site: Served) -> None:
    all_slots_serve(site)
    shown = json.loads(site.text("/threads"))
    assert shown["own"] in SLOTS
    assert set(shown["known"]) == {"MainThread", "lurcher-watch", *SLOTS}
    assert "_DummyThread" not in shown["kinds"]
    assert not any(daemon for _, daemon in shown["known"].values())
    # As top, gdb and py-spy see them.
    assert set(shown["kernel"]) >= SLOTS
    # faulthandler names a thread by its number, before Python 3.14.
    seen = {int(number, 16) for number in re.findall(r"hread (0x[0-9a-f]+)", shown["dump"])}
    assert seen == {ident for ident, _ in shown["known"].values()}
    assert shown["dump"].count("in slot") == THREADS


def test_c13_thread_locals_live_as_long_as_their_slot(place: Stage) -> None:
    site = Served(place, "isolation:app")
    conns = [site.send("/local") for _ in range(400)]
    for conn in conns:
        site.answer(conn)
    found = counts(site)
    assert 1 <= found["locals made"] <= THREADS
    assert "locals dropped" not in found


def test_c15_asyncio_runs_in_every_slot(site: Served) -> None:
    conns = [site.send("/run-asyncio") for _ in range(40)]
    assert {site.answer(conn).body for conn in conns} == {b"b"}
    assert json.loads(site.text("/threads"))["running loop"] is False


def test_c15_c22_signals_belong_to_the_main_thread(site: Served) -> None:
    """As in any thread of any program: ValueError in the request that tries."""
    for target in ("/loop-signals", "/set-signal", "/set-signal?wakeup"):
        assert site.ask(target).status == 500
    site.lurcher.wait_for_err("only works in main thread")
    assert site.text("/hello") == "hello"


def test_c22_a_handler_set_at_import_runs(site: Served) -> None:
    assert json.loads(site.text("/loaded"))["in the main thread"] is True
    assert site.text("/signal-self") == "1"
    # Also when nobody asks for anything.
    before = counts(site)["signals"]
    os.kill(site.lurcher.worker_pids()[0], signal.SIGUSR1)
    wait_for("the handler", lambda: counts(site)["signals"] == before + 1)


def test_c16_threads_of_the_application_run_while_slots_wait(place: Stage) -> None:
    site = Served(place, "isolation:app", env={"TICKS": "1"})
    first = counts(site).get("ticks", 0)
    wait_for("50 ticks more", lambda: counts(site).get("ticks", 0) > first + 50)


def test_c18_slots_work_side_by_side(site: Served) -> None:
    for _ in range(3):
        all_slots_serve(site)


def test_c05_streams_hold_their_own_slots_only(place: Stage) -> None:
    site = Served(place, "isolation:app", ["--queue-limit", "10"])
    streams = [site.send("/endless") for _ in range(THREADS - 1)]
    wait_for("three streams", lambda: counts(site).get("endless begun") == THREADS - 1)
    for _ in range(20):
        assert site.text("/hello") == "hello"
    # With a fourth they wait in the queue, and beyond that are refused.
    streams.append(site.send("/endless"))
    wait_for("the fourth stream", lambda: site.fake.receive(0.05) and site.fake.of(streams[-1]))
    waiting = [site.send("/hello") for _ in range(40)]
    wait_for("a refusal", lambda: site.fake.receive(0.05) and any(map(site.fake.of, waiting)))
    for conn in streams:
        site.fake.disconnect(conn)
    answers = [site.answer(conn) for conn in waiting]
    assert {answer.status for answer in answers} == {200, 503}
    refused = [answer for answer in answers if answer.status == 503]
    assert all(answer.header("Retry-After") for answer in refused)
    wait_for("their end", lambda: counts(site).get("endless closed") == THREADS)


# ---- Processes


def test_c01_c02_the_application_is_loaded_where_it_runs(place: Stage) -> None:
    """A thread that never rests, a pair of sockets, a random number, all made at import: none is shared, none harms."""
    site = Served(place, "isolation:app", ["--workers", "2", "--threads", "1"], env={"SPINS": "1"})
    site.lurcher.wait_for_workers(2)
    numbers: dict[int, float] = {}

    def both() -> bool:
        for conn in [site.send("/loaded") for _ in range(6)]:
            shown = site.answer(conn).json()
            assert shown["pid"] == shown["loaded by"]
            assert shown["through the pair"] == "x"
            numbers[shown["pid"]] = shown["number"]
        return len(numbers) >= 2

    wait_for("an answer of each worker", both, 20)
    assert len(set(numbers.values())) == len(numbers)
    os.kill(site.lurcher.worker_pids()[0], signal.SIGKILL)
    site.lurcher.wait_for_workers(2)
    assert site.ask("/loaded").status == 200


def test_a_child_inherits_nothing_of_ours(site: Served) -> None:
    for conn in [site.send("/run-subprocess") for _ in range(THREADS)]:
        output, errors, exited, killed = site.answer(conn).json()
        # The three streams, and the descriptor that lists them; no signal is blocked.
        assert output == "['0', '1', '2', '3'] []\n"
        assert errors == ""
        assert (exited, killed) == (3, -signal.SIGTERM)


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_multiprocessing(site: Served, way: str) -> None:
    assert site.ask(f"/run-multiprocessing?{way}").json() == [49, 0]
    all_slots_serve(site)


@pytest.mark.parametrize("how", ["_exit", "sys.exit", "raise", "write", "start", "return"])
def test_a_forked_child_answers_nothing(site: Served, how: str) -> None:
    """Whatever it does, the parent's answer is the only one, and the worker goes on."""
    assert re.fullmatch(r"-?[0-9]+", site.text(f"/fork?{how}"))
    all_slots_serve(site)


@pytest.mark.parametrize("how", ["exit", "abort", "segfault"])
def test_c19_a_process_that_dies_is_answered_for(place: Stage, how: str) -> None:
    site = Served(place, "isolation:app", ["--workers", "2"])
    pids = set(site.lurcher.wait_for_workers(2))
    answer = site.ask(f"/die?{how}")
    assert (answer.status, answer.closed) == (502, True)
    said = {"exit": "exit", "abort": "SIGABRT", "segfault": "SIGSEGV"}[how]
    site.lurcher.wait_for_err(said)
    assert len(set(site.lurcher.wait_for_workers(2)) - pids) == 1
    assert site.text("/hello") == "hello"


# ---- The end


def ends_well(site: Served) -> None:
    """After it was told to."""
    assert site.lurcher.wait_exit() == 0, site.lurcher.err()[-4000:]
    site.lurcher.assert_no_orphans()
    said = site.lurcher.err()
    for words in ("Fatal", "Exception ignored", "SIGABRT", "SIGSEGV", "panicked", "cut off"):
        assert words not in said, said[-4000:]


def ready(site: Served, count: int) -> list[int]:
    """Waits until so many workers in all have said that they are ready; gives those that live."""
    wait_for("workers", lambda: site.lurcher.err().count("is ready after") == count, 20)
    return site.lurcher.worker_pids()


@pytest.mark.parametrize("how", ["stop", "worker", "kill"])
def test_c06_c17_atexit_runs_once_in_each_worker(place: Stage, how: str) -> None:
    """Also for one that is told to end alone; not for one that is killed."""
    lines = place.directory / "atexit"
    site = Served(place, "isolation:app", ["--workers", "2"], env={"ATEXIT_FILE": str(lines)})
    pids = ready(site, 2)
    for conn in [site.send("/hello") for _ in range(20)]:
        site.answer(conn)
    expected = list(pids)
    if how != "stop":
        os.kill(pids[0], signal.SIGKILL if how == "kill" else signal.SIGTERM)
        ready(site, 3)
        wait_for("the end of the first", lambda: pids[0] not in site.lurcher.worker_pids())
        expected = site.lurcher.worker_pids() + ([pids[0]] if how == "worker" else [])
    site.lurcher.send_signal(signal.SIGTERM)
    ends_well(site)
    found = [int(line) for line in lines.read_text(encoding="ascii").split()]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("how", ["requests", "lingering", "busy"])
def test_c04_no_deadlock_at_the_end(place: Stage, how: str) -> None:
    """With requests at work, with threads that use what the application was given, or with one that never rests."""
    held = place.directory / "held"
    for _ in range(4):
        held.write_bytes(b"")
        env = {"HELD_FILE": str(held), **({"SPINS": "1"} if how == "busy" else {})}
        site = Served(place, "isolation:app", ["--workers", "2"], env=env)
        site.lurcher.wait_for_workers(2)
        conns = []
        if how == "requests":
            conns = [site.send("/hold?0.2") for _ in range(2 * THREADS)]
            wait_for("all of them at work", lambda: held.stat().st_size == 2 * THREADS)
        elif how == "lingering":
            site.text("/linger")
        else:
            for conn in [site.send("/hello") for _ in range(50)]:
                site.answer(conn)
        site.lurcher.send_signal(signal.SIGTERM)
        for conn in conns:
            assert site.answer(conn).body == b"held"
        ends_well(site)


def test_c08_logging_and_signals_do_not_lock_each_other(place: Stage) -> None:
    site = Served(place, "isolation:app")
    (pid,) = site.lurcher.wait_for_workers(1)
    conn = site.send("/log-tightly?1")
    site.lurcher.wait_for_err("tight")
    for _ in range(250):
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGUSR1)
    assert site.answer(conn).body == b"logged"
    assert counts(site)["signals"] >= 1
    assert site.lurcher.worker_pids() == [pid]


def test_c07_the_interpreters_own_checks_find_nothing(place: Stage) -> None:
    """Python's development mode and its checking allocator, while requests of all kinds and signals come."""
    site = Served(place, "isolation:app", env={"PYTHONDEVMODE": "1", "PYTHONMALLOC": "debug"})
    (pid,) = site.lurcher.wait_for_workers(1)
    targets = [
        "/hello",
        "/context?1",
        "/fail?late,SystemExit",
        "/fail?close,RecursionError",
        "/fail?call,KeyboardInterrupt",
        "/drop-elsewhere",
        "/run-asyncio",
        "/local",
        "/rude",
    ]
    conns = []
    for number in range(600):
        conns.append(site.send(targets[number % len(targets)]))
        if number % 10 == 0:
            os.kill(pid, signal.SIGUSR1)
    for conn in conns:
        site.heard(conn)
    all_slots_serve(site)
    site.lurcher.send_signal(signal.SIGTERM)
    ends_well(site)


# ---- The log


def test_g03_text_that_the_terminal_cannot_show_is_no_error(tmp_path: Path) -> None:
    empty = {"LANG": "", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    site = served(tmp_path, "isolation:app", env=empty)
    try:
        assert site.text("/say") == "said"
        said = site.lurcher.wait_for_err("application: \u00c9cole \u6c34 \\ud800")
        assert "Traceback" not in said
    finally:
        site.stage.clear_away()


def test_g08_a_traceback_is_in_the_log_at_once(place: Stage) -> None:
    """While another request is at work; and it stays there when the worker is killed."""
    site = Served(place, "isolation:app", ["--threads", "2"])
    (pid,) = site.lurcher.wait_for_workers(1)
    held = site.send("/hold?30")
    assert site.ask("/shout?loudly").status == 500
    site.lurcher.wait_for_err("RuntimeError: shouted loudly", 1)
    os.kill(pid, signal.SIGKILL)
    assert site.answer(held).status == 502
    said = site.lurcher.err()
    assert said.count("RuntimeError: shouted loudly") == 1
    assert not is_worker(pid)


# ---- Through the real Mongrel2


@pytest.fixture(scope="module")
def behind_mongrel2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    stage = Stage(tmp_path_factory.mktemp("mongrel2"))
    front = stage.mongrel2()
    stage.lurcher(*front.options, app="isolation:app")
    yield front.port
    stage.clear_away()


@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt", "RecursionError", "Hostile"])
def test_c11_a_client_sees_500_or_a_cut(behind_mongrel2: int, error: str) -> None:
    assert get(behind_mongrel2, f"/fail?call,{error}").status == 500
    for where in ("late", "close"):
        with pytest.raises(ClosedError):
            get(behind_mongrel2, f"/fail?{where},{error}")
    assert get(behind_mongrel2, "/hello").body == b"hello"


def test_c15_asyncio_and_processes_behind_mongrel2(behind_mongrel2: int) -> None:
    assert get(behind_mongrel2, "/run-asyncio").body == b"b"
    assert get(behind_mongrel2, "/run-multiprocessing?fork").json() == [49, 0]
    assert get(behind_mongrel2, "/run-subprocess").json()[2:] == [3, -signal.SIGTERM]
