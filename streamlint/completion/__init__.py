"""``streamlint completion``: what a shell needs to complete commands, options and rules.

The scripts stand beside this file; ``python -m tests.completions`` has shtab write them from the commands.
Who completes needs nothing but his shell, and no run of streamlint.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamlint.output.terminal import write

if TYPE_CHECKING:
    from collections.abc import Sequence

SHELLS: Final = {
    "bash": 'in ~/.bashrc: eval "$(streamlint completion bash)"',
    "zsh": "in a folder of $fpath, before compinit: streamlint completion zsh > _streamlint",
    "fish": "streamlint completion fish > ~/.config/fish/completions/streamlint.fish",
}
FOLDER: Final = Path(__file__).parent


def main(argv: Sequence[str]) -> int:
    shell: str = parser().parse_args(argv).shell
    write((FOLDER / f"streamlint.{shell}").read_text("utf-8"), sys.stdout)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="streamlint completion",
        description="Print what a shell needs to complete commands, options and rules.",
        epilog="\n".join(f"{shell}: {where}" for shell, where in SHELLS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("shell", choices=tuple(SHELLS))
    return made
