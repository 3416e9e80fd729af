"""Werkzeug's own tests of a server, out of its source distribution, asked of Lurcher behind the real Mongrel2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from support.sdist import unpacked

PASS = {
    "test_server[http]",
    "test_500_error",
    "test_wrong_protocol",
    "test_content_type_and_length",
    "test_streaming_close_response[]",
    "test_streaming_close_response[crash]",
    "test_streaming_chunked_response",
    "test_streaming_chunked_truncation",
}
# What they say where Werkzeug's server has another opinion than Mongrel2 or Lurcher; docs/suites.md says more.
DIFFER = {
    "test_untrusted_host": r"assert 'missing\.test' == '127\.0\.0\.1'",
    "test_double_slash_path": r"assert '//double-slash' == '/double-slash'",
    "test_multiple_headers_concatenated": r"assert 'a, b, c, d' == 'a ,b,c ,d'",
    "test_multiline_header_folding": r"JSONDecodeError: Expecting value: line 1 column 1",
    # Up to there it has found the form and the file.
    "test_chunked_request[False]": r"KeyError: 'HTTP_TRANSFER_ENCODING'",
    "test_chunked_request[True]": r"BrokenPipeError|ConnectionResetError|RemoteDisconnected|JSONDecodeError",
}
HERE = Path(__file__).resolve().parent


def test_werkzeugs_tests_of_a_server(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    words = f"-p werkzeug_plugin -p no:cacheprovider -W default -m dev_server --junit-xml={report}"
    ours = [HERE, HERE.parent, HERE.parents[2] / "scripts"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words.split(), "tests/test_serving.py"],
        cwd=unpacked("werkzeug"),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, ours)), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    passed = set()
    failed = {}
    for case in ET.parse(report).iter("testcase"):
        # What an option of Werkzeug's own server is for is skipped, or fails for want of a certificate.
        name = case.attrib["name"]
        trouble = [part for part in case if part.tag in ("failure", "error")]
        if trouble:
            failed[name] = "\n".join(f"{part.get('message')}\n{part.text}" for part in trouble)
        elif case.find("skipped") is None:
            passed.add(name)
    failed.pop("test_ssl_dev_cert", None)
    assert passed == PASS, run.stdout
    assert set(failed) == set(DIFFER), run.stdout
    for name, words in DIFFER.items():
        assert re.search(words, failed[name]), failed[name]
