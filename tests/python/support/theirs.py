"""pytest over the tests of a source distribution, with a plugin that puts Lurcher in their server's place."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.sdist import unpacked

TESTS = Path(__file__).resolve().parent.parent
OURS = (TESTS / "suites", TESTS, TESTS.parents[1] / "scripts")


@dataclass
class Outcome:
    """What became of their tests, by name; what is skipped is in neither."""

    passed: set[str]
    failed: dict[str, str]
    said: str


def run_theirs(
    name: str, plugin: str, words: Sequence[str], report: Path, env: Mapping[str, str]
) -> Outcome:
    """Runs pytest with these words in what is unpacked, without the options that it gives itself."""
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider"),
            *("-o", "addopts=", "-W", "default", f"--junit-xml={report}", *words),
        ],
        cwd=unpacked(name),
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, OURS)),
            "PYTEST_ADDOPTS": "",
            **env,
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    outcome = Outcome(set(), {}, run.stdout + run.stderr)
    assert report.exists(), outcome.said
    for case in ET.parse(report).iter("testcase"):
        _, _, group = case.attrib["classname"].rpartition(".")
        full = case.attrib["name"] if group.startswith("test_") else f"{group}.{case.get('name')}"
        trouble = [part for part in case if part.tag in ("failure", "error")]
        if trouble:
            outcome.failed[full] = "\n".join(f"{p.get('message')}\n{p.text}" for p in trouble)
        elif case.find("skipped") is None:
            outcome.passed.add(full)
    return outcome
