"""``python -m streamlint`` is the ``streamlint`` command."""

import sys

from streamlint.cli import main

if __name__ == "__main__":
    sys.exit(main())
