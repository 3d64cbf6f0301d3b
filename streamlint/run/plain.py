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
    """Whether a file imports one with GPU code, or one that does so itself; what a package hands on is near.

    ``from .factory import build``, and ``factory.py`` has ``from .engines import Engine``. ``asked`` gets the
    names that were looked up.
    """
    waiting = [(name, False) for name in _imported(tree, path, data)]
    seen: set[tuple[Path, bool]] = set()
    while waiting:
        name, is_far = waiting.pop()
        asked.add(name)
        place = tree.named.place(name)
        if place is None or (place[1], is_far) in seen:
            continue
        seen.add((place[1], is_far))
        imported = _of_module(tree, place[1])
        if imported is None:
            return True
        hands_on = place[1].name == "__init__.py"
        if hands_on or not is_far:
            waiting += [(one, is_far or not hands_on) for one in imported]
    return False


def _of_module(tree: Tree, path: Path) -> tuple[str, ...] | None:
    """What a module imports; None of one with GPU code."""
    if path not in tree.imported:
        data = tree.data(path) or b""
        found = None if may_touch_gpu(data) else tuple(_imported(tree, path, data))
        tree.imported[path] = found
    return tree.imported[path]


def _imported(tree: Tree, path: Path, data: bytes) -> Iterator[str]:
    """The modules that a file may import, whether there are any or not: what it takes may be one as well."""
    own, where = tree.named.of_files.get(path, ""), tree.relative(path)
    package = names.package_of(own, where, is_package=path.name == "__init__.py")
    for module, taken in imports(data):
        name = module.lstrip(".")
        level = len(module) - len(name)
        found = names.relative(package, where, level, name) if level else name
        if found is not None:
            source = tree.named.meant(where, found)
            yield tree.named.beside(where, found)
            yield source
            yield from (f"{source}.{one}" if source else one for one in taken if one != _ALL)
