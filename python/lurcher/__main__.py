"""The command ``lurcher``, also as ``python -m lurcher``."""

import os
import signal
import subprocess
import sys

from lurcher import _native


def main() -> int:
    """Run the command line of this process. Give its exit code."""
    _need_standard_streams()
    # Python's own handler would still be called beside ours, and raise KeyboardInterrupt in the end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Workers get the same flags, such as -X dev and -W error.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return _native.main(sys.argv[1:], sys.executable, flags)


def _need_standard_streams() -> None:
    """Open what is closed of the descriptors 0 to 2: a socket must not become what a worker prints to."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)


if __name__ == "__main__":
    sys.exit(main())
