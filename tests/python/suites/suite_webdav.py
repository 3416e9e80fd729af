"""Debian's litmus against WsgiDAV through the real Mongrel2: PUT, COPY, MOVE, properties, locks, Expect."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.stage import Stage
from support.waiting import wait_for

SUITES = {"basic": 16, "copymove": 13, "props": 30, "locks": 41, "http": 4}


@pytest.mark.parametrize("workers_threads", [1, 4])
def test_litmus(tmp_path: Path, workers_threads: int) -> None:
    litmus = shutil.which("litmus")
    assert litmus, "litmus is missing: run scripts/install-missing suites"
    files = tmp_path / "files"
    files.mkdir()
    stage = Stage(tmp_path)
    front = stage.mongrel2(settings={"limits.content_length": 1024 * 1024})
    stage.lurcher(
        *front.options,
        *("--threads", str(workers_threads)),
        app="dav_site:application",
        env={"DAV_SITE_FILES": str(files)},
    )
    run = subprocess.run(
        [litmus, "--keep-going", f"http://127.0.0.1:{front.port}/"],
        cwd=tmp_path,
        capture_output=True,
        timeout=110,
        check=False,
    )
    said = run.stdout.decode("utf-8", "replace")
    found = re.findall(r"summary for `(\w+)': of (\d+) tests run: (\d+) passed, (\d+) failed", said)
    assert {name: int(passed) for name, _, passed, _ in found} == SUITES, said
    assert all(failed == "0" for *_, failed in found), said
    assert run.returncode == 0
    stage.clear_away()


def test_a_large_file_goes_there_and_comes_back(tmp_path: Path) -> None:
    import requests

    files = tmp_path / "files"
    files.mkdir()
    stage = Stage(tmp_path)
    front = stage.mongrel2(settings={"upload.temp_store": "tmp/upload.XXXXXX"})
    (front.directory / "tmp").mkdir(exist_ok=True)
    stage.lurcher(
        *front.options,
        *("--mongrel2-chroot", str(front.directory)),
        app="dav_site:application",
        env={"DAV_SITE_FILES": str(files)},
    )
    base = f"http://127.0.0.1:{front.port}"
    wait_for("the site", lambda: requests.options(base + "/", timeout=20).status_code == 200, 20)
    data = bytes(range(256)) * 4 * 1024 * 32
    assert requests.put(base + "/l\u00e4rge", data=data, timeout=60).status_code == 201
    assert requests.get(base + "/l%C3%A4rge", timeout=60).content == data
    blocks = (data[at : at + 100_000] for at in range(0, len(data), 100_000))
    assert requests.put(base + "/chunks", data=blocks, timeout=60).status_code == 201
    assert requests.get(base + "/chunks", timeout=60).content == data
    assert requests.put(base + "/empty", data=iter(()), timeout=60).status_code == 201
    assert requests.get(base + "/empty", timeout=60).content == b""
    part = requests.get(base + "/l\u00e4rge", headers={"Range": "bytes=-10"}, timeout=60)
    assert (part.status_code, part.content) == (206, data[-10:])
    stage.clear_away()
