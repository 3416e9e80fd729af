"""waitress' functional tests, out of its source distribution, asked of `lurcher serve` by TCP and by a Unix socket."""

from __future__ import annotations

import re
from pathlib import Path

from support.theirs import run_theirs

# By TCP and by a Unix socket alike, where waitress has another opinion; docs/suites.md says more.
PAGE = r"response_body\.startswith"
DIFFER = {
    "EchoTests.test_broken_chunked_encoding_invalid_extension": "TimeoutError",
    "EchoTests.test_broken_chunked_encoding_invalid_hex": "b'Invalid chunk size' not found",
    "EchoTests.test_broken_chunked_encoding_missing_chunk_end": "terminated' not found",
    "EchoTests.test_keepalive_http10_explicit": "'keep-alive' != 'Keep-Alive'",
    "EchoTests.test_proxy_headers": "'http' != 'https'",
    "ExpectContinueTests.test_expect_continue": "200 != 100",
    "NoContentLengthTests.test_http10_listlentwo": "'52' is not None",
    "NoContentLengthTests.test_http11_generator": "assertEqual.response_body, expected",
    "NoContentLengthTests.test_http11_listlentwo": "assertEqual.response_body, expected",
    "TooLargeTests.test_request_body_too_large_chunked_encoding": "'400'",
    "TooLargeTests.test_request_body_too_large_with_no_cl_http10_keepalive": "'400'",
    "TooLargeTests.test_request_body_too_large_with_no_cl_http11": "'400'",
    "TooLargeTests.test_request_body_too_large_with_wrong_cl_http10_keepalive": "'400'",
    "TooLargeTests.test_request_body_too_large_with_wrong_cl_http11": "'400'",
    "InternalServerErrorTests.test_after_start_response_http10": PAGE,
    "InternalServerErrorTests.test_after_start_response_http11": PAGE,
    "InternalServerErrorTests.test_after_start_response_http11_close": PAGE,
    "InternalServerErrorTests.test_before_start_response_http_10": PAGE,
    "InternalServerErrorTests.test_before_start_response_http_11": PAGE,
    "InternalServerErrorTests.test_before_start_response_http_11_close": PAGE,
    "InternalServerErrorTestsWithTraceback.test_expose_tracebacks_http_10": PAGE,
    "InternalServerErrorTestsWithTraceback.test_expose_tracebacks_http_11": PAGE,
    # Either of two.
    "FileWrapperTests.test_filelike_longcl_http11": "502|45458 != 45448",
    "InternalServerErrorTests.test_after_write_cb": "'500'",
    "InternalServerErrorTests.test_in_generator": "'500'",
}
# A response that breaks off is a 502 if that is known before its first byte is sent; else it is cut, as they expect.
MAY_DIFFER = {
    "BadContentLengthTests.test_short_body": "502",
    "WriteCallbackTests.test_short_body": "502",
    "FileWrapperTests.test_notfilelike_longcl_http11": "502",
}
TESTS = 137


def test_waitress_functional_tests(tmp_path: Path) -> None:
    words = ["tests/test_functional.py"]
    found = run_theirs("waitress", "waitress_plugin", words, tmp_path / "report.xml", {})
    failed = set()
    for full, said in found.failed.items():
        name = full.removeprefix("Tcp").removeprefix("Unix")
        failed.add(name)
        words_of_it = {**DIFFER, **MAY_DIFFER}.get(name)
        assert words_of_it is not None, (full, said)
        assert re.search(words_of_it, said), said
    assert failed - set(MAY_DIFFER) == set(DIFFER), found.said
    assert len(found.passed) + len(found.failed) == TESTS
