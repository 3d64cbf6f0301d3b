"""The ``streamlint`` command, also as ``python -m streamlint``."""

import sys


def main() -> int:
    """Run the command; also while its parts are still being imported Ctrl-C is no reason for a traceback."""
    try:
        from streamlint.cli import main as run
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    # ``python -m`` puts the current folder first on the path: the ``json.py`` of a program to be checked.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]
    sys.exit(main())
