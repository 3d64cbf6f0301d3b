"""``streamlint confirm``: show on a GPU what the analysis found."""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """Run the command; 0: nothing confirmed, 1: something confirmed, 2: could not run."""
    # Imported here because the child process imports this package too, and must get by with the
    # libraries of the user's environment, where streamlint's own may be missing.
    from streamlint.confirm.command import main as command

    return command(argv)
