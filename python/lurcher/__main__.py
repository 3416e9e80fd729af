"""The command ``lurcher``, also as ``python -m lurcher``."""

import sys

from lurcher import _native


def main() -> int:
    """Run the command line of this process. Give its exit code."""
    return _native.main(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
