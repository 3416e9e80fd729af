#!/usr/bin/env python3
"""Fill corpus/ from the fixtures: every message, and each part of one that a target reads alone."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures" / "mongrel2"


def put(target: str, name: str, data: bytes) -> None:
    """Add one seed to the corpus of a target."""
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(data)


def main() -> None:
    """Write all seeds."""
    for path in sorted(FIXTURES.glob("*.bin")):
        message = path.read_bytes()
        put("request", path.stem, message)
        _, _, _, netstrings = message.split(b" ", 3)
        length, _, rest = netstrings.partition(b":")
        put("headers", path.stem, rest[: int(length)])
        put("netstring", path.stem, netstrings)
        if path.stem.endswith(".tnet"):
            put("tnetstring", path.stem, netstrings[: len(length) + int(length) + 2])
    for path in sorted((FIXTURES / "responses").glob("*.bin")):
        message = path.read_bytes()
        put("reply", path.stem, message)
        if path.stem.startswith("ctl-"):
            put("tnetstring", path.stem, message.split(b", ", 1)[1])
    for path in sorted((FIXTURES.parent / "responses").glob("*.http")):
        put("response", path.stem, path.read_bytes())


if __name__ == "__main__":
    main()
