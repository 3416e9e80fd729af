"""A view of the file system in which every user may read the interpreter and this project, wherever they lie."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from support.process import APPS, COMMAND

# Each pair of words is a place and what was kept of it; the last words are the command.
SCRIPT = """
set -e
closed=$1; kept=$2; shift 2
umask 022
number=0
for place in "$@"; do
    [ "$place" = -- ] && break
    number=$((number + 1))
    mkdir "$kept/$number"
    mount --bind "$place" "$kept/$number"
done
mount -t tmpfs -o mode=755 tmpfs "$closed"
number=0
while [ "$1" != -- ]; do
    number=$((number + 1))
    mkdir -p "$1"
    mount --bind "$kept/$number" "$1"
    shift
done
shift
exec "$@"
"""


def closed_directory(place: Path) -> Path | None:
    """The first directory on the way to a place that only its owner may pass."""
    for parent in reversed(place.parents):
        if not parent.stat().st_mode & 0o001:
            return parent
    return None


def opened(directory: Path, command: tuple[str, ...] = (str(COMMAND),)) -> list[str]:
    """The command, where needed in a mount namespace of its own without the closed directory. Only for root.

    An interpreter in root's home directory is no use to another user otherwise. Nothing outside the namespace changes.
    """
    needed = [Path(sys.base_prefix), Path(sys.prefix), APPS.parent.parent.parent]
    by_closed: dict[Path, list[Path]] = {}
    for place in dict.fromkeys(path.resolve() for path in needed):
        closed = closed_directory(place)
        if closed is not None:
            by_closed.setdefault(closed, []).append(place)
    for closed, places in by_closed.items():
        kept = directory / f"kept{str(closed).replace(os.sep, '-')}"
        kept.mkdir()
        space = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", str(closed), str(kept)]
        command = (*space, *map(str, places), "--", *command)
    return list(command)
