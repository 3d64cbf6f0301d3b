"""When Python looks for cyclic garbage.

What a run keeps, indexed modules and lowered functions, are millions of objects that stay alive. The
collector walks over all of them again and again while others are made, which takes a fifth of the time
of a run over a large tree. Garbage of one file is little, so it is enough to look for it after each.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


GROWTH = 1.25
"""Between runs all garbage is looked for when so many times as much is held as was alive the last time."""
_alive = 0
"""How much was: a language server begins a run with each edit, and to collect walks over all of it."""


def start() -> None:
    """From now on, to the end of this process, garbage is collected by ``collect`` only."""
    gc.disable()
    gc.freeze()


@contextmanager
def by_hand() -> Iterator[None]:
    """Inside, garbage is collected by ``collect`` only; afterwards as before."""
    enabled = gc.isenabled()
    start()
    _look_for_garbage_of_earlier_runs()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def _look_for_garbage_of_earlier_runs() -> None:
    """What a run keeps is garbage when it is over, and must not stay frozen with what is alive for good."""
    global _alive  # noqa: PLW0603  (there is one collector in a process)
    there = sys.getallocatedblocks()  # to count what is collected would walk over all of it, too
    if not _alive:  # the first run
        _alive = there
    elif there > GROWTH * _alive:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        _alive = sys.getallocatedblocks()


def release() -> None:
    """What was kept so far may have become garbage: the next ``collect`` looks at all of it."""
    gc.unfreeze()


def collect() -> None:
    """Collects what became garbage since the last call; what is alive is not looked at again."""
    gc.collect()
    gc.freeze()
