"""The tests of Django's source distribution that have a live server: Lurcher, behind either front end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.sdist import unpacked

HERE = Path(__file__).resolve().parent
# Of servers.tests the other classes are about a server in the process of the tests; docs/suites.md names them.
LABELS = [
    "servers.tests.LiveServerAddress",
    "servers.tests.LiveServerDatabase",
    "servers.tests.LiveServerPort",
    "servers.tests.LiveServerTestCaseSetupTest",
    "servers.tests.LiveServerThreadedTests",
    "servers.tests.LiveServerViews",
    "file_storage.tests.FileLikeObjectTestCase",
]
TESTS = 19
# Where Django's server has another opinion, the line that says so.
DIFFER = {
    # It closes after a body without length, where Lurcher sends chunks and goes on.
    "test_closes_connection_without_content_length": "assertTrue(response.will_close)",
    # It stays when the client has said `Connection: close`, where Mongrel2 and Lurcher do as they are told.
    "test_keep_alive_connection_clears_previous_request_data": "assertFalse(response.will_close)",
    "test_keep_alive_on_connection_with_content_length": "assertFalse(response.will_close)",
}


# What the tests of uploads ask in the process of the application itself.
IN_PROCESS = {
    "test_broken_custom_upload_handler": "AttributeError not raised",
    "test_fileuploads_closed_at_request_end": 'hasattr(request, "_files")',
    # Each process has made a directory of its own, at import.
    "test_filename_traversal_upload": "response.json()",
}


def run_tests(
    directory: Path, front_end: str, how: str | None, *words: str
) -> tuple[int, dict[str, str], str]:
    """How many tests have run, which of them have failed and what they said, and all that was printed."""
    ours = [HERE, HERE.parent, HERE.parents[2] / "scripts"]
    run = subprocess.run(
        [
            *(sys.executable, str(HERE / "django_runtests.py")),
            *([how] if how else []),
            *("--settings=django_settings", "--parallel=1", "--noinput", *words),
        ],
        cwd=unpacked("django") / "tests",
        env={
            **os.environ,
            "DJANGO_SUITE_DIRECTORY": str(directory),
            "SUITE_FRONT_END": front_end,
            "PYTHONPATH": os.pathsep.join(map(str, ours)),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
    )
    failed = {}
    for part in run.stdout.split("=" * 70)[1:]:
        if found := re.match(r"\s*(?:FAIL|ERROR): (\w+)", part):
            failed[found[1]] = part
    count = re.search(r"^Ran (\d+) tests", run.stdout, re.MULTILINE)
    return int(count[1]) if count else 0, failed, run.stdout


def check(found: tuple[int, dict[str, str], str], count: int, expected: dict[str, str]) -> None:
    ran, failed, said = found
    assert set(failed) == set(expected), said
    for name, words in expected.items():
        assert words in failed[name], failed[name]
    assert ran == count, said
    assert "skipped" not in said, said


def test_live_servers(tmp_path: Path, front_end: str) -> None:
    check(run_tests(tmp_path, front_end, None, *LABELS), TESTS, DIFFER)


@pytest.mark.parametrize("how", ["--client", "--client-chunks"])
def test_file_uploads(tmp_path: Path, front_end: str, how: str) -> None:
    found = run_tests(tmp_path, front_end, how, "file_uploads.tests.FileUploadTests")
    check(found, 32, IN_PROCESS)
