"""What unseen callers pass: its key on a path, and what its trace says of it."""

from __future__ import annotations

import re
from functools import lru_cache

from streamlint.interp.state.values import SymV
from streamlint.trace import Passed

_KEY = re.compile(r"(\*?)(\d+):(\w+)(.*)", re.DOTALL)


def unknown(call: int, name: str, *, rest: bool = False) -> SymV:
    """The argument ``name`` of a call from outside; ``rest``: those that ``*name`` takes."""
    return SymV(f"{'*' if rest else ''}{call}:{name}")


@lru_cache(maxsize=4_096)
def passed(key: str) -> Passed | None:
    """What the caller of a call from outside passes, if the value with this key is that or a part of it."""
    found = _KEY.fullmatch(key)
    return Passed(int(found[2]), found[3], found[4], rest=bool(found[1])) if found is not None else None
