"""Debian's litmus against WsgiDAV through Mongrel2 and `lurcher serve`: PUT, COPY, MOVE, properties, locks, Expect."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import requests
from support.behind import Behind, behind

MB = 1024 * 1024
SUITES = {"basic": 16, "copymove": 13, "props": 30, "locks": 41, "http": 4}


def folder(front_end: str, directory: Path, *options: str) -> Behind:
    """An empty one."""
    (directory / "files").mkdir()
    env = {"DAV_SITE_FILES": str(directory / "files")}
    return behind(front_end, directory, "dav_site:application", *options, env=env)


@pytest.mark.parametrize("threads", [1, 4])
def test_litmus(tmp_path: Path, front_end: str, threads: int) -> None:
    litmus = shutil.which("litmus")
    assert litmus, "litmus is missing: run scripts/install-missing suites"
    site = folder(front_end, tmp_path, "--threads", str(threads))
    run = subprocess.run(
        [litmus, "--keep-going", f"{site.base}/"],
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
    site.end()


def test_a_large_file_goes_there_and_comes_back(tmp_path: Path, front_end: str) -> None:
    site = folder(front_end, tmp_path)
    base = site.base
    data = bytes(range(256)) * (32 * MB // 256)
    assert requests.put(base + "/l\u00e4rge", data=data, timeout=60).status_code == 201
    assert requests.get(base + "/l%C3%A4rge", timeout=60).content == data
    blocks = (data[at : at + 100_000] for at in range(0, len(data), 100_000))
    assert requests.put(base + "/chunks", data=blocks, timeout=60).status_code == 201
    assert requests.get(base + "/chunks", timeout=60).content == data
    assert requests.put(base + "/empty", data=iter(()), timeout=60).status_code == 201
    assert requests.get(base + "/empty", timeout=60).content == b""
    part = requests.get(base + "/l\u00e4rge", headers={"Range": "bytes=-10"}, timeout=60)
    assert (part.status_code, part.content) == (206, data[-10:])
    site.end()
