"""Which process, and which place of its program, something is about."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlint.confirm.text.weave import Site


def process_name() -> str:
    """What tells the processes of one program apart in each of its runs: a rank, a worker's name."""
    rank = os.environ.get("RANK", "")
    multiprocessing = sys.modules.get("multiprocessing.process")
    name = "MainProcess" if multiprocessing is None else multiprocessing.current_process().name
    return " ".join(part for part in (rank and f"rank {rank}", name if name != "MainProcess" else "") if part)


def passed(error: BaseException, site: Site) -> bool:
    """Whether the error, or one that it came from, left a call on the line of the site."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    frames = [frame for one in chain for frame in traceback.extract_tb(one.__traceback__)]
    path = os.path.realpath(site.path)
    return any(f.lineno == site.place.line and os.path.realpath(f.filename) == path for f in frames)
