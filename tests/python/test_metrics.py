"""Metrics, as a collector reads them."""

from __future__ import annotations

import re
import socket

from support.process import Lurcher
from support.rawhttp import get
from support.stage import Stage
from support.waiting import wait_for

SAMPLE = re.compile(r'(lurcher_\w+)((?:\{(?:\w+="[^"\n]*",?)+\})?) (\d+(?:\.\d+)?(?:e-?\d+)?)')


def address(lurcher: Lurcher) -> int:
    said = lurcher.wait_for_err("metrics at http://127.0.0.1:")
    found = re.search(r"metrics at http://127\.0\.0\.1:(\d+)/metrics", said)
    assert found
    return int(found[1])


def scrape(port: int) -> dict[str, float]:
    """All samples; the whole page must be of the format."""
    response = get(port, "/metrics")
    assert response.status == 200
    assert response.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    samples: dict[str, float] = {}
    for line in response.body.decode().splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP lurcher_\w+ .+\.|TYPE lurcher_\w+ \w+)", line), line
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        assert sample[1] + sample[2] not in samples, line
        samples[sample[1] + sample[2]] = float(sample[3])
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
