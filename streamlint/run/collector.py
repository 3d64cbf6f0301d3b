"""When Python looks for cyclic garbage.

What a run keeps, indexed modules and lowered functions, are millions of objects that stay alive. The
collector walks over all of them again and again while others are made, which takes a fifth of the time
of a run over a large tree. Garbage of one file is little, so it is enough to look for it after each.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_runs = count()
"""How many runs this process has begun: a language server begins one with each edit."""


def start() -> None:
    """From now on, to the end of this process, garbage is collected by ``collect`` only."""
    gc.disable()
    gc.freeze()


@contextmanager
def by_hand() -> Iterator[None]:
    """Inside, garbage is collected by ``collect`` only; afterwards as before."""
    enabled = gc.isenabled()
    if next(_runs):  # what the run before kept is garbage by now, and is not to be frozen with what is alive
        gc.collect()
    start()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def release() -> None:
    """What was kept so far may have become garbage: the next ``collect`` looks at all of it."""
    gc.unfreeze()


def collect() -> None:
    """Collects what became garbage since the last call; what is alive is not looked at again."""
    gc.collect()
    gc.freeze()
