"""What ``--diff`` puts into a text as a safe fix, and what as an unsafe one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import cli

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

RUN = """\
import torch
from torch.cuda import Stream

SIDE = Stream()
LATE = None


def make():
    return Stream()


def run(x: torch.Tensor, flag: bool{parameter}):
    {made}
    with torch.cuda.stream(s):
        y = x * 2
    {then}
    return y.sum()
"""
PLAIN = RUN.format(parameter="", made="s = torch.cuda.Stream()", then="pass")
"""A function that has a safe fix."""
WAIT = "torch.cuda.current_stream().wait_stream(s)"


def fixed(where: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What ``--diff`` adds, and what it says."""
    cli.main([str(where), "--no-cache", "--min-confidence", "possible", "--diff", *options])
    return capsys.readouterr().out


def is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, wait: str = WAIT) -> bool:
    """Whether a wait is put in by ``--fix``; it is offered as an unsafe one in any case."""
    (tmp_path / "code.py").write_text(text)
    assert f"{wait}\n" in fixed(tmp_path / "code.py", capsys, "--unsafe-fixes")
    return f"{wait}\n" in fixed(tmp_path / "code.py", capsys)


def lines(text: str, indent: str = "    ") -> str:
    return f"\n{indent}".join(text.splitlines())
