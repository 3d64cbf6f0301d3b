"""``streamlint doctor``: measure on this machine what the model rests on."""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """Run the command; 0: all holds, 1: something does not, 2: nothing could be measured."""
    # Imported here because the child imports this package too, with another interpreter.
    from streamlint.confirm.doctor.command import main as command

    return command(argv)
