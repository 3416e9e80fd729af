"""Metrics, as a collector reads them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess

from prometheus_client.parser import text_string_to_metric_families
from support.handler import Message
from support.own import OwnHandler, echo
from support.process import APPS, Lurcher, command_line
from support.rawhttp import Client, get, request
from support.stage import Stage
from support.waiting import wait_for


def address(lurcher: Lurcher) -> int:
    said = lurcher.wait_for_err("metrics at http://127.0.0.1:")
    found = re.search(r"metrics at http://127\.0\.0\.1:(\d+)/metrics", said)
    assert found
    return int(found[1])


def scrape(port: int) -> dict[str, float]:
    """All samples, read as Prometheus reads them; no family may come twice, none be without words."""
    response = get(port, "/metrics")
    assert response.status == 200
    assert response.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    samples: dict[str, float] = {}
    families: set[str] = set()
    for family in text_string_to_metric_families(response.body.decode()):
        assert family.name.startswith("lurcher_")
        assert family.name not in families, family.name
        families.add(family.name)
        assert family.documentation.endswith("."), family.name
        assert family.type in ("gauge", "counter", "histogram"), family.name
        for name, labels, value, *_ in family.samples:
            shown = ",".join(f'{label}="{text}"' for label, text in labels.items())
            key = f"{name}{{{shown}}}" if labels else name
            assert key not in samples, key
            samples[key] = float(value)
    return samples


def test_what_happens_is_counted(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, "--metrics", "localhost:0", "--control", "off")
    port = address(lurcher)
    for number in range(3):
        assert get(front.port, f"/number/{number}").status == 200
    assert get(front.port, "/number/1?ms=300").status == 200
    assert get(front.port, "/raise").status == 500
    shown = scrape(port)
    (link,) = [key for key in shown if key.startswith("lurcher_link_connected")]
    assert front.links[0].send_spec in link
    for key, value in {
        "lurcher_requests_received_total": 5,
        'lurcher_requests_total{status="2xx"}': 4,
        'lurcher_requests_total{status="5xx"}': 1,
        'lurcher_request_outcomes_total{outcome="application_error"}': 1,
        "lurcher_request_duration_seconds_count": 5,
        'lurcher_request_duration_seconds_bucket{le="+Inf"}': 5,
        "lurcher_queue_duration_seconds_count": 5,
        "lurcher_queue_length": 0,
        "lurcher_queue_limit": 1024,
        "lurcher_slots": 4,
        "lurcher_slots_busy": 0,
        'lurcher_workers{state="ready"}': 1,
        link: 1,
    }.items():
        assert shown[key] == value, key
    assert shown['lurcher_request_duration_seconds_bucket{le="0.25"}'] <= 4
    assert shown["lurcher_request_duration_seconds_sum"] >= 0.3
    assert shown["lurcher_sent_bytes_total"] > 500
    assert shown["lurcher_workers_resident_bytes"] > 1_000_000
    assert any(key.startswith("lurcher_build_info{version=") for key in shown)


def test_only_that_page_and_in_any_number_of_pieces(stage: Stage) -> None:
    front = stage.mongrel2()
    lurcher = stage.lurcher(*front.options, "--metrics", "127.0.0.1:0")
    port = address(lurcher)
    lurcher.wait_for_err("is ready")
    assert get(port, "/").status == 404
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        for byte in b"HEAD /metrics?a=b HTTP/1.0\r\n\r\n":
            client.sendall(bytes([byte]))
        answer = client.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\n")
    silent = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(15)]
    for client in silent:
        client.sendall(b"GET /metr")
    for client in silent:
        client.close()
    wait_for("room", lambda: get(port, "/metrics").status == 200)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"x" * 8192)
        assert b" 503 " in client.makefile("rb").read()


def test_an_address_that_is_taken_is_said_at_once(stage: Stage) -> None:
    front = stage.mongrel2()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        lurcher = stage.lurcher(*front.options, "--metrics", where)
        assert lurcher.wait_exit() == 1
        assert f"--metrics {where}: " in lurcher.err()
    wrong = stage.lurcher(*front.options, "--metrics", "everywhere")
    assert wrong.wait_exit() == 64
    assert '--metrics: "everywhere" is no IP address with a port' in wrong.err()


def answer(handler: OwnHandler, message: Message) -> None:
    """What the path says."""
    if message.path == "/broken":
        handler.reply(message, b"nonsense\r\n\r\n")
    elif message.path != "/silent":
        echo(handler, message)


def test_a_front_end_counts_what_happens_to_its_clients(stage: Stage) -> None:
    front = stage.own_front("--metrics", "127.0.0.1:0", "--response-timeout", "300ms", path="/a")
    port = address(front.process)
    assert scrape(port)['lurcher_front_handlers{route="/a"}'] == 0
    with OwnHandler(front, lambda handler, message: answer(handler, message)):
        front.wait_for_handlers(1)
        with Client(front.port) as client:
            for _ in range(3):
                assert client.get("/a").status == 200
            counted = scrape(port)
            assert counted["lurcher_front_connections"] == 1
        assert get(front.port, "/other").status == 404
        with Client(front.port) as client:
            client.send(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
            assert b" 400 " in client.rest()
    wait_for("its end", lambda: scrape(port)['lurcher_front_handlers{route="/a"}'] == 0)
    with Client(front.port) as client:
        client.send(request("GET", "/a/waits"))
        wait_for("it", lambda: scrape(port)['lurcher_front_waiting_requests{route="/a"}'] == 1)
        client.reset()
        wait_for("no more", lambda: scrape(port)["lurcher_front_queue_length"] == 0)
    shown = scrape(port)
    for key, value in {
        "lurcher_front_connections_accepted_total": 4,
        'lurcher_front_requests_total{status="2xx"}': 3,
        'lurcher_front_requests_total{status="4xx"}': 2,
        'lurcher_front_requests_total{status="none"}': 1,
        'lurcher_front_request_outcomes_total{outcome="ok"}': 3,
        'lurcher_front_request_outcomes_total{outcome="refused"}': 2,
        'lurcher_front_request_outcomes_total{outcome="client_gone"}': 1,
        "lurcher_front_request_duration_seconds_count": 6,
        "lurcher_front_first_byte_seconds_count": 5,
        "lurcher_front_queue_limit": 1024,
        "lurcher_front_queued_total": 1,
        'lurcher_front_handlers{route="/a"}': 0,
        'lurcher_front_outstanding_requests{route="/a"}': 0,
    }.items():
        assert shown[key] == value, key
    assert shown["lurcher_front_received_bytes_total"] > 100
    assert shown["lurcher_front_sent_bytes_total"] > 200
    assert "lurcher_front_instance_up" not in shown


def test_what_handlers_do_to_requests_is_counted(stage: Stage) -> None:
    front = stage.own_front("--metrics", "unix:m", "--response-timeout", "300ms")
    place = stage.directory / "f" / "m"
    front.process.wait_for_err("metrics at unix:")
    assert place.stat().st_mode & 0o777 == 0o600

    def outcome(word: str) -> float:
        command = ["curl", "-sS", "--unix-socket", str(place), "http://x/metrics"]
        page = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
        samples = [
            sample
            for family in text_string_to_metric_families(page.stdout)
            for sample in family.samples
        ]
        [value] = [sample.value for sample in samples if sample.labels.get("outcome") == word]
        return float(value)

    with OwnHandler(front, answer) as handler:
        front.wait_for_handlers(1)
        assert get(front.port, "/broken").status == 502
        assert outcome("broken_response") == 1
        assert get(front.port, "/silent").status == 504
        assert outcome("timed_out") == 1
        with Client(front.port) as client:
            client.send_request("GET", "/silent")
            wait_for("the request", lambda: len(handler.messages) >= 5)
            handler.close()
            assert client.response().status == 502
    assert outcome("handler_died") == 1
    assert front.process.stop() == 0
    assert not place.exists()


def test_one_page_for_all_that_serve_has_started(stage: Stage) -> None:
    words = ["serve", "probe:application", "--app-path", str(APPS)]
    words += ["--bind", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    lurcher = stage.lurcher(*words, app=None)
    port = address(lurcher)
    said = lurcher.wait_for_err("listening at 127.0.0.1:")
    found = re.search(r"listening at 127\.0\.0\.1:(\d+)", said)
    assert found
    assert get(int(found[1]), "/number/1").status == 200
    wait_for("the instance", lambda: scrape(port).get("lurcher_requests_received_total") == 1)
    shown = scrape(port)
    assert shown['lurcher_front_requests_total{status="2xx"}'] == 1
    assert shown["lurcher_front_instance_up"] == 1
    [instance] = [
        pid for pid in lurcher.processes() if command_line(pid)[0].startswith(b"lurcher: instance")
    ]
    os.kill(instance, signal.SIGSTOP)
    try:
        wait_for("silence", lambda: scrape(port)["lurcher_front_instance_up"] == 0)
        shown = scrape(port)
        assert "lurcher_requests_received_total" not in shown
        assert shown["lurcher_front_connections_accepted_total"] == 1
    finally:
        os.kill(instance, signal.SIGCONT)
    wait_for("its voice", lambda: scrape(port)["lurcher_front_instance_up"] == 1)
    assert lurcher.stop() == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        late = stage.lurcher(*words[:-1], where, app=None)
        assert late.wait_exit() == 1
        assert f"--metrics {where}: " in late.err()
