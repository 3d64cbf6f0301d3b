"""Where a program is that does not end, from what ``faulthandler`` wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from streamlint.confirm.terms import Cause
from streamlint.frozen import frozen

_OWN: Final = str(Path(__file__).parents[1])

_TIMEOUT: Final = "Timeout ("

_FRAME: Final = re.compile(r' *File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


@frozen()
class Frame:
    file: str
    line: int
    function: str


def stuck_at(text: str, path: str) -> tuple[str, Cause]:
    """Where a program with the user's file ``path`` waits, in words, and whether it is its own doing."""
    stacks = read_stacks(text)
    if not stacks:
        return "", Cause.TIMEOUT
    *others, main = stacks
    files = [frame.file for frame in main if frame.file == path or frame.file.startswith(_OWN)]
    if path not in files:
        return ": none of its code was running", Cause.ELSEWHERE
    if files[0] != path:
        # A right program may not end there: it holds what a callback asks for, and the probe waits for that.
        return ", because a probe waits", Cause.ELSEWHERE
    places = [place for stack in (main, *others) if (place := _place_in(stack, path))]
    return f"; it waits at {', and another thread at '.join(places[:2])}", Cause.TIMEOUT


def has_stacks(text: str) -> bool:
    """Whether the stacks of a program that did not end were written, or some of them."""
    return _TIMEOUT in text


def read_stacks(text: str) -> list[list[Frame]]:
    """The stacks written last, innermost frame first; that of the main thread comes last."""
    _, _, dump = text.rpartition(_TIMEOUT)
    stacks: list[list[Frame]] = []
    for line in dump.splitlines():
        if line.endswith("most recent call first):"):
            stacks.append([])
        elif stacks and (found := _FRAME.fullmatch(line)):
            stacks[-1].append(Frame(found["file"], int(found["line"]), found["function"]))
    return stacks


def _place_in(stack: list[Frame], path: str) -> str:
    """Where a thread is in the user's file, else wherever it is."""
    own = [frame for frame in stack if frame.file == path] or [
        f for f in stack if not f.file.startswith(_OWN)
    ]
    return f"{Path(own[0].file).name}, line {own[0].line}, in {own[0].function}" if own else ""
