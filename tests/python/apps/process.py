"""Shows as whom, and where, it runs."""

import json
import os
import stat
import tempfile
from collections.abc import Callable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "made")
        with open(path, "w"):
            mode = stat.S_IMODE(os.stat(path).st_mode)
    shown = {
        "uid": [os.getuid(), os.geteuid()],
        "gid": [os.getgid(), os.getegid()],
        "groups": sorted(os.getgroups()),
        "mode": oct(mode),
        "directory": os.getcwd(),
        "names": {name: os.environ.get(name) for name in ("HOME", "USER", "LOGNAME")},
        "notify": os.environ.get("NOTIFY_SOCKET"),
    }
    body = json.dumps(shown).encode()
    start_response(
        "200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    )
    return [body]
