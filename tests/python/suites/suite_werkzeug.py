"""Werkzeug's own tests of a server, out of its source distribution, asked of Mongrel2 and of `lurcher serve`."""

from __future__ import annotations

import re
from pathlib import Path

from support.theirs import run_theirs

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
    "test_multiline_header_folding": r"JSONDecodeError",
    # Up to there it has found the form and the file.
    "test_chunked_request[False]": r"KeyError: 'HTTP_TRANSFER_ENCODING'",
    "test_chunked_request[True]": r"BrokenPipeError|ConnectionResetError|RemoteDisconnected|JSONDecodeError",
}
# Our own front end may get the end of a broken response before it has sent a byte; then it is a 502, and not truncated.
MAY_DIFFER = {"serve": {"test_streaming_chunked_truncation": "DID NOT RAISE"}}


def test_werkzeugs_tests_of_a_server(tmp_path: Path, front_end: str) -> None:
    words = ["-m", "dev_server", "tests/test_serving.py"]
    report = tmp_path / "report.xml"
    env = {"SUITE_FRONT_END": front_end}
    # What an option of Werkzeug's own server is for is skipped, or fails for want of a certificate.
    found = run_theirs("werkzeug", "werkzeug_plugin", words, report, env)
    found.failed.pop("test_ssl_dev_cert", None)
    for name, said in MAY_DIFFER.get(front_end, {}).items():
        if said in found.failed.pop(name, said):
            found.passed.add(name)
    assert found.passed == PASS, found.said
    assert set(found.failed) == set(DIFFER), found.said
    for name, words_of_it in DIFFER.items():
        assert re.search(words_of_it, found.failed[name]), found.failed[name]
