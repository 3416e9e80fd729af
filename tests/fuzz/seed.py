#!/usr/bin/env python3
"""Fill corpus/ from the fixtures: every message, and each part of one that a target reads alone."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures" / "mongrel2"

HEADS = [
    b"GET /a%20b?c=d#e HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nx-a: 2\r\n\r\nrest",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody",
    b"POST http://h:1/x HTTP/1.1\r\nHost: y\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"\r\nOPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\nX_Y: caf\xe9\r\n\r\n",
]


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
        put("relay", path.stem, path.read_bytes())
    for number, head in enumerate(HEADS):
        put("client", str(number), head)


if __name__ == "__main__":
    main()
