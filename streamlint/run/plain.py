"""Files that need no analysis, which are most: the analyzer is not even loaded for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.prefilter import may_hold_comments, may_touch_gpu
from streamlint.run.results import FileResult, Reads

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.run.tree import Tree


def of_plain_file(tree: Tree, path: Path, *, parsed: bool = False) -> FileResult | None:
    """What a file without GPU code gives: why it cannot be used, if it cannot. None for any other file.

    ``parsed`` says that the tree has found this out already.
    """
    data = tree.data(path)
    if data is None:
        return FileResult(errors=tree.errors_of(path))
    if may_touch_gpu(data):
        return None
    if not parsed:
        tree.check(path)
    return FileResult(errors=tree.errors_of(path), marked=may_hold_comments(data), reads=Reads())
