"""What a browser shows of an example that `lurcher serve` serves, as a picture: what `make screenshot` does.

Starts both, saves the page of headless Chromium, stops both. Standard library only.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVING = re.compile(rb"serving at (http://\S+)")
SECONDS = 60


def take(url: str, picture: Path) -> None:
    """Saves the picture of a page."""
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="lurcher-") as profile:
        command = [
            *("chromium", "--headless", "--disable-gpu", "--no-sandbox", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", "--window-size=1000,700"),
            # Scripts and pictures of a page may come after its load event.
            *("--virtual-time-budget=5000", f"--screenshot={picture}", url),
        ]
        subprocess.run(command, capture_output=True, timeout=SECONDS, check=True)  # noqa: S603
    if not picture.exists():
        raise SystemExit(f"chromium saved no picture of {url}")


def main() -> int:
    """Exit code 0 when there is a picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--app", default="hello:application", help="what is served, in examples/")
    parser.add_argument("--path", default="/", help="the page")
    parser.add_argument("--picture", type=Path, default=ROOT / "build/screenshot.png")
    args = parser.parse_args()
    lurcher = Path(sys.prefix) / "bin" / "lurcher"
    words = ["serve", args.app, "--app-path", str(ROOT / "examples"), "--bind", "127.0.0.1:0"]
    command = [str(lurcher), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as serve:  # noqa: S603
        try:
            assert serve.stdout is not None  # noqa: S101
            # It ends with a reason on standard error if it cannot serve; then there is no line.
            found = SERVING.search(serve.stdout.readline())
            if found is None:
                raise SystemExit("lurcher does not serve")
            take(found[1].decode() + args.path, args.picture)
        finally:
            serve.terminate()
    print(args.picture)
    return serve.returncode


if __name__ == "__main__":
    sys.exit(main())
