"""Source distributions, for the tests that they carry: fetched into build/ by pip, never a part of this repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

BUILD = Path(__file__).resolve().parents[3] / "build" / "suites"


def unpacked(name: str) -> Path:
    """The directory of what is installed by that name, in the same version, unpacked."""
    full = f"{name}-{version(name)}"
    there = BUILD / full
    if not there.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as temporary:
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            subprocess.run(
                [*pip, "download", "--no-deps", "--no-binary", ":all:", full.replace("-", "==")],
                cwd=temporary,
                timeout=100,
                check=True,
            )
            (archive,) = Path(temporary).glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extractall(temporary, filter="data")
            shutil.move(Path(temporary, full), there)
    return there
