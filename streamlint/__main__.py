"""The ``streamlint`` command, also as ``python -m streamlint``."""

import sys


def main() -> int:
    """Run the command. Ctrl-C is no reason for a traceback, before it starts and when all is said either."""
    if sys.argv[1:] == ["--version"]:  # what installers and editors ask first needs nothing else
        from streamlint import __version__

        sys.stdout.write(f"streamlint {__version__}\n")
        return 0
    try:
        import signal

        from streamlint.cli import main as run
    except KeyboardInterrupt:
        return 130
    status = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Ctrl-C inside of an `exec` of text (a dataclass is being made) marks the process as ended by the signal,
    # and that mark outlives the exception. The next `exec` takes it away.
    exec("")  # noqa: S102
    return status


if __name__ == "__main__":
    # ``python -m`` puts the current folder first on the path: the ``json.py`` of a program to be checked.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]
    sys.exit(main())
