"""Builds Lurcher for each CPython found here and runs the tests of what depends on it, each in its own environment.

    scripts/test_versions.py [--ends] [--list] [pytest words ...]

Looked for are `python3.10` and newer, among pyenv's versions and on the PATH; of several patch releases the newest
counts.
`--ends` takes the oldest and the newest only. What was not found is named: it is no failure, none found is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "versions"
WANTED = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
ASK = """
import sys, sysconfig
free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
if sys.implementation.name == "cpython":
    print("%d.%d%s" % (*sys.version_info[:2], free), *sys.version_info[:3])
"""
# What a version of Python can make different: the worker's side. The rest is the instance, which runs no Python.
TESTS = (
    "tests/python/test_worker.py",
    "tests/python/test_loader.py",
    "tests/python/test_http.py",
    "tests/python/cases",
)


def candidates() -> list[Path]:
    """Every interpreter that might be one of those wanted."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(root.glob("versions/*/bin/python3"))
    for name in WANTED:
        path = shutil.which(f"python{name}")
        # pyenv's shims stand for whatever is chosen now.
        if path and "shims" not in Path(path).parts:
            found.append(Path(path))
    return found


def interpreters() -> dict[str, Path]:
    """Those wanted, by version; of each the newest."""
    best: dict[str, tuple[tuple[int, ...], Path]] = {}
    for path in candidates():
        asked = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=False)
        match = re.fullmatch(r"(\S+) (\d+) (\d+) (\d+)\n", asked.stdout)
        if match and match[1] in WANTED:
            release = tuple(int(part) for part in match.groups()[1:])
            if match[1] not in best or release > best[match[1]][0]:
                best[match[1]] = (release, path)
    return {name: best[name][1] for name in WANTED if name in best}


def say(words: str) -> None:
    """Print a heading."""
    print(f"\n== {words}", flush=True)


def prepare(name: str, interpreter: Path) -> str:
    """An environment for that version with what is built for it, and with what the tests need."""
    place = BUILD / name
    python = str(place / "venv" / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([interpreter, "-m", "venv", place / "venv"], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    requirements = str(ROOT / "requirements-dev.txt")
    subprocess.run([*pip, "-r", requirements], check=True)
    wheels = place / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    # One target directory for all: only PyO3 and what stands on it is built again.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target" / "maturin")}
    environment.pop("PYO3_PYTHON", None)
    maturin = [python, "-m", "maturin", "build", "--release", "--locked", "--quiet"]
    subprocess.run(
        [*maturin, "--interpreter", python, "--out", str(wheels)],
        check=True,
        cwd=ROOT,
        env=environment,
    )
    wheel = str(next(wheels.glob("*.whl")))
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    return python


def main(words: list[str]) -> int:
    """Test with all that is found. Give the exit code."""
    found = interpreters()
    missing = [name for name in WANTED if name not in found]
    if missing:
        print(f"not found: CPython {', '.join(missing)}")
    if not found:
        print("no CPython from 3.10 on was found", file=sys.stderr)
        return 1
    options = [word for word in words if word in ("--ends", "--list")]
    words = [word for word in words if word not in options] or list(TESTS)
    chosen = dict(found)
    if "--ends" in options:
        names = list(found)
        chosen = {name: found[name] for name in dict.fromkeys((names[0], names[-1]))}
    if "--list" in options:
        for name, path in chosen.items():
            print(f"{name}\t{path}")
        return 0
    failed = []
    for name, path in chosen.items():
        say(f"CPython {name} ({path}): building")
        python = prepare(name, path)
        say(f"CPython {name}: pytest {' '.join(words)}")
        tests = subprocess.run([python, "-m", "pytest", *words], cwd=ROOT, check=False)
        if tests.returncode != 0:
            failed.append(name)
    say(
        f"CPython {', '.join(chosen)}: {'failed: ' + ', '.join(failed) if failed else 'all passed'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
