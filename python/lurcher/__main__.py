"""The command ``lurcher``, also as ``python -m lurcher``."""

import signal
import subprocess
import sys

from lurcher import _native


def main() -> int:
    """Run the command line of this process. Give its exit code."""
    # Python's own handler would still be called beside ours, and raise KeyboardInterrupt in the end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Workers get the same flags, such as -X dev and -W error.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return _native.main(sys.argv[1:], sys.executable, flags)


if __name__ == "__main__":
    sys.exit(main())
