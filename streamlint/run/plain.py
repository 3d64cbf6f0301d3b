"""Files that need no analysis, which are most: the analyzer is not even loaded for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import names
from streamlint.prefilter import imports, may_hold_comments, may_touch_gpu
from streamlint.run.results import FileResult, Reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
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
    """Whether a file imports one with GPU code, a name that another one has from such, or one that does so.

    ``from .factory import build``, and ``factory.py`` has ``from .engines import Engine``. ``asked`` gets the
    names that were looked up.
    """
    imported = list(_imported(tree, path, data))
    if _imports_itself(tree, path, imported, asked):
        return True
    for name in _near(imported):
        place = tree.named.place(name)
        if place is None or place[1] == path:
            continue
        if place[1] not in tree.importing:
            names_of: set[str] = set()
            further = _imported(tree, place[1], tree.data(place[1]) or b"")
            found = _imports_itself(tree, place[1], further, names_of)
            tree.importing[place[1]] = (found, frozenset(names_of))
        imports_gpu, looked_up = tree.importing[place[1]]
        asked |= looked_up
        if imports_gpu:
            return True
    return False


def _near(imported: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """The modules that a file imports; what it takes of one may be one, too."""
    for module, taken in imported:
        yield module
        yield from (f"{module}.{one}" if module else one for one in taken)


def _imports_itself(
    tree: Tree, path: Path, imported: Iterable[tuple[str, tuple[str, ...]]], asked: set[str]
) -> bool:
    for module, taken in imported:
        asked.add(tree.named.beside(tree.relative(path), module))
        parts = taken or tuple(_handing_on(tree, module))
        if _touches_gpu(tree, module, asked) or any(_leads_to_gpu(tree, module, one, asked) for one in parts):
            return True
    return False


def _leads_to_gpu(tree: Tree, module: str, name: str, asked: set[str]) -> bool:
    """Whether what a module has by a name is a module with GPU code, or comes from one.

    ``from .core import Mover``, and ``core/__init__.py`` has ``from .mover import Mover``.
    """
    waiting = [(module, name)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        where, wanted = here
        if wanted != _ALL and _touches_gpu(tree, f"{where}.{wanted}" if where else wanted, asked):
            return True
        given = _handing_on(tree, where)
        for source in (*given.get(wanted, ()), *given.get(_ALL, ())):
            if _touches_gpu(tree, source, asked):
                return True
            waiting.append((source, wanted))
    return False


def _handing_on(tree: Tree, module: str) -> Mapping[str, tuple[str, ...]]:
    """The modules from which a module has its names, ``*`` for all that there are."""
    place = tree.named.place(module)
    if place is None:
        return {}
    path = place[1]
    if path not in tree.handing_on:
        found: dict[str, tuple[str, ...]] = {}
        for source, taken in _imported(tree, path, tree.data(path) or b""):
            for name in taken:
                found[name] = (*found.get(name, ()), source)
        tree.handing_on[path] = found
    return tree.handing_on[path]


def _imported(tree: Tree, path: Path, data: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The modules that a file may import, whether there are any or not, with what it takes of each."""
    own, where = tree.named.of_files.get(path, ""), tree.relative(path)
    package = names.package_of(own, where, is_package=path.name == "__init__.py")
    for module, taken in imports(data):
        name = module.lstrip(".")
        level = len(module) - len(name)
        found = names.relative(package, where, level, name) if level else name
        if found is not None:
            yield tree.named.meant(where, found), taken


def _touches_gpu(tree: Tree, name: str, asked: set[str]) -> bool:
    asked.add(name)
    place = tree.named.place(name)
    if place is None:
        return False
    path = place[1]
    if path not in tree.touching:
        data = tree.data(path)
        tree.touching[path] = data is not None and may_touch_gpu(data)
    return tree.touching[path]
