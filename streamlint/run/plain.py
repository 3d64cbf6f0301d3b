"""Files that need no analysis, which are most: the analyzer is not even loaded for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.prefilter import imports, may_hold_comments, may_start_threads, may_touch_gpu
from streamlint.run.results import FileResult, Reads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamlint.run.tree import Tree


def of_plain_file(tree: Tree, path: Path, *, parsed: bool = False) -> FileResult | None:
    """What a file without GPU code gives: why it cannot be used, if it cannot. None for any other file.

    ``parsed`` says that the tree has found this out already. A file that starts threads is none of these
    where it imports one with GPU code.
    """
    data = tree.data(path)
    if data is None:
        return FileResult(errors=tree.errors_of(path))
    if may_touch_gpu(data):
        return None
    looked_up = frozenset(_imported(tree, path, data) if may_start_threads(data) else ())
    if any(_touches_gpu(tree, name) for name in looked_up):
        return None
    if not parsed:
        tree.check(path)
    return FileResult(errors=tree.errors_of(path), marked=may_hold_comments(data), reads=Reads(looked_up))


def _imported(tree: Tree, path: Path, data: bytes) -> Iterator[str]:
    """The names of the modules that a file may import, whether there are any or not."""
    own = tree.named.of_files.get(path, "")
    package = own.split(".") if path.name == "__init__.py" else own.split(".")[:-1]
    for module, taken in imports(data):
        name = module.lstrip(".")
        if above := len(module) - len(name):
            name = ".".join([*package[: max(len(package) - above + 1, 0)], *([name] if name else [])])
        yield name
        yield from (f"{name}.{part}" for part in taken)


def _touches_gpu(tree: Tree, name: str) -> bool:
    place = tree.named.place(name)
    if place is None:
        return False
    path = place[1]
    if path not in tree.touching:
        data = tree.data(path)
        tree.touching[path] = data is not None and may_touch_gpu(data)
    return tree.touching[path]
