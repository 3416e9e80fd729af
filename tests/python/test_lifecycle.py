"""Starting, stopping, and front ends that come and go."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.front import FrontEnd
from support.load import Load
from support.rawhttp import Client, get
from support.stage import Stage
from support.waiting import wait_for


def forwarded(front: FrontEnd) -> int:
    """How many requests Mongrel2 has handed on: it logs each at that moment."""
    return (front.directory / "logs/access.log").read_bytes().count(b"/number/")


def wait_for_instances(front: FrontEnd, pids: set[int]) -> None:
    """Until all of them have answered.

    On one connection: Mongrel2 deals the notice that a client is gone like a request, so that with two instances and a
    connection for each request one of them would get all requests and the other all notices.
    """
    with Client(front.port, 60) as client:
        wait_for(
            f"{pids} to answer",
            lambda: {client.get("/who").json()["ppid"] for _ in range(2 * len(pids))} == pids,
            30,
        )


def begun_numbers(stage: Stage) -> set[int]:
    return {int(line.split()[1]) for line in stage.record() if line.startswith("begun ")}


def begun(stage: Stage) -> int:
    return len(begun_numbers(stage))


@pytest.mark.timeout(400)
def test_the_first_request_after_each_of_fifty_starts_is_answered(stage: Stage) -> None:
    """The request waits inside Mongrel2 when Lurcher connects: an answer before the subscription would be lost."""
    front = stage.mongrel2()
    for number in range(50):
        with Client(front.port) as client:
            client.send_request("GET", f"/number/{number}")
            lurcher = stage.lurcher(*front.options)
            assert client.response().body == b"%d" % number
        assert lurcher.stop() == 0, lurcher.err()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("group", [False, True], ids=["instance", "group"])
def test_stopping_finishes_what_was_taken(
    stage: Stage, number: signal.Signals, group: bool
) -> None:
    """Two at work, four more in the queue."""
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, "--threads", "2")
    assert get(front.port, "/number/0").body == b"0"
    clients = [Client(front.port) for _ in range(6)]
    for n, client in enumerate(clients, 1):
        client.send_request("GET", f"/number/{n}?ms=400")
    wait_for("two to be at work and all to be forwarded", lambda: begun(stage) >= 3)
    wait_for("all to be forwarded", lambda: forwarded(front) == 7)
    # TERM to the whole group is what some process managers do.
    (lurcher.send_signal_group if group else lurcher.send_signal)(number)
    for n, client in enumerate(clients, 1):
        assert client.response().body == b"%d" % n
        client.close()
    assert lurcher.wait_exit() == 0, lurcher.err()
    lurcher.assert_no_orphans()


def test_a_stream_at_work_is_finished(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options)
    with Client(front.port) as client:
        client.send_request("GET", "/stream?count=20&size=3&ms=50")
        client.head()
        client.chunk()
        lurcher.send_signal(signal.SIGTERM)
        rest = b"".join(client.chunks())
    assert lurcher.wait_exit() == 0
    assert rest.endswith(b"99\n00\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(stage: Stage, number: signal.Signals) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options)
    with Client(front.port) as client:
        client.send_request("GET", "/number/1?ms=60000")
        wait_for("it to be at work", lambda: begun(stage) == 1)
        lurcher.send_signal(number)
        with pytest.raises(AssertionError):
            lurcher.wait_exit(1)
        lurcher.send_signal(number)
        assert lurcher.wait_exit(3) == 1
        lurcher.assert_no_orphans()


def test_the_graceful_timeout_is_kept(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, "--graceful-timeout", "1")
    with Client(front.port) as client:
        client.send_request("GET", "/number/1?ms=60000")
        wait_for("it to be at work", lambda: begun(stage) == 1)
        began = time.monotonic()
        lurcher.send_signal(signal.SIGTERM)
        lurcher.wait_exit(6)
        assert time.monotonic() - began >= 0.9
        lurcher.assert_no_orphans()


def test_stopping_while_the_application_loads(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, app="slow_import:application")
    wait_for("the application to be loading", lambda: stage.record() == ["loading"], 20)
    assert lurcher.stop(seconds=5) == 0


def test_two_instances_share_the_work(stage: Stage, protocol: str) -> None:
    front = stage.mongrel2(protocol)
    instances = [stage.lurcher(*front.options) for _ in range(2)]
    wait_for_instances(front, {instance.pid for instance in instances})
    load = Load(front.port, 16).start()
    load.wait_for_more(500)
    load.stop()
    assert not load.failures(), load.summary()


def test_one_of_two_instances_leaves_under_load(stage: Stage, protocol: str) -> None:
    """What was sent to it before it left is answered by it; everything later goes to the other.

    Mongrel2 notices the end of a connection up to a millisecond late, and what it deals to that connection meanwhile
    it loses, whatever we do: a client of it hears nothing. That can be no more than what was under way at that moment,
    one request of each client; and never one that was begun.
    """
    clients = 16
    front = stage.mongrel2(protocol)
    staying, leaving = (stage.lurcher(*front.options) for _ in range(2))
    wait_for_instances(front, {staying.pid, leaving.pid})
    load = Load(front.port, clients, lambda n: f"/number/{n}?ms=2", seconds=4).start()
    load.wait_for_more(200)
    assert leaving.stop() == 0, leaving.err()
    load.wait_for_more(400)
    load.stop()
    lost = load.failures()
    assert len(lost) <= clients, load.summary()
    assert {outcome.what for outcome in lost} <= {"hung"}, load.summary()
    assert not {outcome.number for outcome in lost} & begun_numbers(stage)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_mongrel2_restarts_under_load(stage: Stage, protocol: str, how: str) -> None:
    """Connection ids start again at 1, so an answer of the old time would find a new client."""
    front = stage.mongrel2(protocol)
    lurcher = stage.lurcher(*front.options, "--threads", "8")
    load = Load(front.port, 16, lambda n: f"/number/{n}?ms={10 + n % 5 * 40}").start()
    for _ in range(3):
        load.wait_for_more(60)
        failed = len(load.failures())
        if how == "stop":
            front.stop()
        else:
            front.kill()
        load.wait_for_failures(failed + 1)
        front.start()
        load.wait_for_more(60)
    load.stop()
    assert lurcher.is_alive()
    bad = [o for o in load.failures() if o.what not in ("closed", "refused")]
    assert not bad, f"{load.summary()}: {bad[:5]}"


def test_no_answer_of_the_old_time_reaches_a_new_client(stage: Stage) -> None:
    """Every slot is busy for the old Mongrel2 when the new one's clients come with the same ids."""
    front = stage.mongrel2()
    stage.lurcher(*front.options, "--threads", "6")
    assert get(front.port, "/number/0").body == b"0"
    old = [Client(front.port) for _ in range(4)]
    for n, client in enumerate(old, 1):
        client.send_request("GET", f"/number/{n}?ms=1500")
    wait_for("all to be at work", lambda: begun(stage) == 5)
    front.kill()
    front.start()
    new = [Client(front.port) for _ in range(8)]
    for n, client in enumerate(new, 101):
        client.send_request("GET", f"/number/{n}?ms=2500")
    for n, client in enumerate(new, 101):
        assert client.response().body == b"%d" % n
    for client in (*old, *new):
        client.close()


def test_without_a_front_end_it_waits_and_says_so_once(stage: Stage) -> None:
    front = stage.mongrel2()
    front.stop()
    lurcher = stage.lurcher(*front.options)
    lurcher.wait_for_err(front.links[0].recv_spec)
    lurcher.wait_for_workers(1)
    with pytest.raises(AssertionError):
        lurcher.wait_exit(4)
    said = [line for line in lurcher.err().splitlines() if " WARN" in line or " ERROR" in line]
    assert 1 <= len(said) <= 2, lurcher.err()
    assert "Traceback" not in lurcher.err()
    front.start()
    assert get(front.port, "/number/1").body == b"1"


def test_without_a_front_end_it_can_be_stopped(stage: Stage) -> None:
    front = stage.mongrel2()
    front.stop()
    lurcher = stage.lurcher(*front.options)
    lurcher.wait_for_workers(1)
    assert lurcher.stop(seconds=6) == 0


def test_two_links_of_one_instance_keep_their_clients_apart(stage: Stage, protocol: str) -> None:
    """Both front ends count their connections from 1."""
    one, two = stage.mongrel2(protocol), stage.mongrel2("json")
    lurcher = stage.lurcher(*one.options, *two.options, "--workers", "2")
    assert get(one.port, "/number/1").body == b"1"
    assert get(two.port, "/number/2").body == b"2"
    assert {get(front.port, "/who").json()["ppid"] for front in (one, two)} == {lurcher.pid}
    loads = [
        Load(front.port, 8, lambda n: f"/number/{n}?ms={n % 5}").start() for front in (one, two)
    ]
    loads[0].wait_for_more(300)
    loads[1].wait_for_more(300)
    # One of them goes away: the other is served on.
    one.stop()
    loads[1].wait_for_more(200)
    one.start()
    loads[0].wait_for_more(100)
    for load in loads:
        load.stop()
    assert not loads[1].failures(), loads[1].summary()
    assert not [o for o in loads[0].failures() if o.what not in ("closed", "refused")]


def test_two_handlers_of_one_mongrel2(stage: Stage) -> None:
    front = stage.mongrel2(routes=("/", "/two/"), handlers=2)
    stage.lurcher(*front.links[0].options, *front.links[1].options)
    assert get(front.port, "/one/x").body.decode() == repr([b"", b"/one/x", b""])
    assert get(front.port, "/two/x").body.decode() == repr([b"", b"/two/x", b""])


def test_clients_that_leave_do_no_harm(stage: Stage, protocol: str) -> None:
    front = stage.mongrel2(protocol)
    stage.lurcher(*front.options)
    assert get(front.port, "/number/0").body == b"0"

    def leave(number: int) -> None:
        client = Client(front.port)
        client.send_request("GET", f"/number/{number}?ms=20")
        client.reset()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(leave, range(1, 200)))
    load = Load(front.port, 8).start()
    load.wait_for_more(200)
    load.stop()
    assert not load.failures(), load.summary()
