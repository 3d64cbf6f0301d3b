"""Files that need no analysis, which are most: the analyzer is not even loaded for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import names
from streamlint.prefilter import imports, may_hold_comments, may_touch_gpu
from streamlint.run.results import FileResult, Reads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamlint.run.tree import Tree

_ALL = "*"


def of_plain_file(tree: Tree, path: Path, *, parsed: bool = False) -> FileResult | None:
    """What a file without GPU code gives: why it cannot be used, if it cannot. None for any other file.

    ``parsed`` says that the tree has found this out already. A file that imports GPU code is none of these.
    """
    data = tree.data(path)
    if data is None:
        return FileResult(errors=tree.errors_of(path))
    asked: set[str] = set()
    if may_touch_gpu(data) or _imports_gpu(tree, path, data, asked):
        return None
    if not parsed:
        tree.check(path)
    return FileResult(
        errors=tree.errors_of(path), marked=may_hold_comments(data), reads=Reads(frozenset(asked))
    )


def _imports_gpu(tree: Tree, path: Path, data: bytes, asked: set[str]) -> bool:
    """Whether a file imports one with GPU code, or a name that another one imports from such.

    ``from .core import Mover``, and ``core/__init__.py`` has ``from .mover import Mover``. ``asked`` gets the
    names that were looked up.
    """
    waiting = [(path, data, _ALL)]
    seen: set[tuple[Path, str]] = set()
    while waiting:
        where, text, wanted = waiting.pop()
        for module, taken in _imported(tree, where, text):
            parts = taken if wanted == _ALL or _ALL in taken else tuple({wanted}.intersection(taken))
            if not parts and wanted != _ALL:
                continue
            dotted = (module, *(f"{module}.{one}" for one in parts))
            if any(_touches_gpu(tree, name, asked) for name in dotted):
                return True
            place = tree.named.place(module)
            if place is not None:
                others = (one for one in parts if tree.named.place(f"{module}.{one}") is None)
                again = {(place[1], wanted if one == _ALL else one) for one in others} - seen
                seen |= again
                waiting += [(there, tree.data(there) or b"", name) for there, name in sorted(again)]
    return False


def _imported(tree: Tree, path: Path, data: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The modules that a file may import, whether there are any or not, with what it takes of each."""
    own = tree.named.of_files.get(path, "")
    package = own.split(".") if path.name == "__init__.py" else own.split(".")[:-1]
    for module, taken in imports(data):
        name = module.lstrip(".")
        level = len(module) - len(name)
        found = names.relative(package, tree.relative(path), level, name) if level else name
        if found is not None:
            yield found, taken


def _touches_gpu(tree: Tree, name: str, asked: set[str]) -> bool:
    top = name.partition(".")[0]
    # Of a package that is not here it is enough to know that.
    asked.add(name if top in tree.named.tops else top)
    place = tree.named.place(name)
    if place is None:
        return False
    path = place[1]
    if path not in tree.touching:
        data = tree.data(path)
        tree.touching[path] = data is not None and may_touch_gpu(data)
    return tree.touching[path]
