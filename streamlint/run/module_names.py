"""What the modules of a tree are called: by where their files lie, and whichever folder is on the path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from streamlint.files import relative
from streamlint.names import by_place
from streamlint.notebook import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Names:
    """The names of the modules of some files."""

    root: Path
    own: Mapping[str, tuple[Path, bool]]
    """The file of each module, and whether it is a package."""
    others: Mapping[str, str]
    """Other names that a module can be imported by, when another folder is on the path: its own name."""

    @staticmethod
    def of(root: Path, files: Sequence[Path]) -> Names:
        packages = frozenset(path.parent for path in files if path.name == "__init__.py")
        folders = {folder: _Folder(folder, root, packages) for folder in {path.parent for path in files}}
        own: dict[str, tuple[Path, bool]] = {}
        namesakes: list[tuple[Path, bool]] = []
        for path in files:
            is_package = path.name == "__init__.py"
            name = dotted(path, folders[path.parent].home)
            known = own.get(name)
            # A package's own module wins over a namesake; among equals the first file does.
            # Nothing imports a notebook.
            if path.suffix != SUFFIX and (known is None or (is_package and not known[1])):
                namesakes += [known] if known is not None else []
                own[name] = (path, is_package)
            else:
                namesakes.append((path, is_package))
        for path, is_package in namesakes:
            own[_by_place(relative(path, root), own)] = (path, is_package)
        return Names(root, own, _others(own, folders))

    @cached_property
    def of_files(self) -> Mapping[Path, str]:
        """The own name of the module of each file."""
        return {path: name for name, (path, _) in self.own.items()}

    @cached_property
    def of_places(self) -> Mapping[str, str]:
        """The same by where the files lie, from the root."""
        return {relative(path, self.root): name for path, name in self.of_files.items()}

    def beside(self, path: str, module: str) -> str:
        """What a module is called that lies beside a file, if another one in the tree has its name.

        ``import registry`` in ``second/train.py``, where ``first/registry.py`` is the module ``registry``.
        """
        folder = path.rpartition("/")[0]
        return by_place(f"{folder}/{module}.py" if folder else f"{module}.py")

    def meant(self, path: str, module: str) -> str:
        """The module that an import in a file means: of two of one name the one that lies beside it."""
        name = self.beside(path, module)
        return name if name in self.own else module

    def place(self, name: str) -> tuple[str, Path] | None:
        """A module's own name and its file, by its dotted name or by another that it can be imported by."""
        name = self.others.get(name, name)
        return (name, self.own[name][0]) if name in self.own else None


def _others(own: Mapping[str, tuple[Path, bool]], folders: Mapping[Path, _Folder]) -> dict[str, str]:
    """``space.core`` where ``space`` has no ``__init__.py``. A name of two means none."""
    owners: dict[str, set[str]] = {}
    for name, (path, _) in own.items():
        for folder in folders[path.parent].others:
            other = dotted(path, folder)
            if other not in own:
                owners.setdefault(other, set()).add(name)
    return {other: names.pop() for other, names in owners.items() if len(names) == 1}


def _by_place(where: str, own: Mapping[str, object]) -> str:
    """A name that nothing imports, for a file like ``b/train.py`` next to ``a/train.py``.

    Two scripts of one name in folders that are no packages are two modules; without a name of its
    own the second one would be looked up, and analyzed, as the first.
    """
    name = by_place(where)
    while name in own:
        name += "'"
    return name


class _Folder:
    """What the modules of a folder can be named from.

    ``home`` is the folder that holds the topmost package around it; the folder itself, if there is none.
    Folders without ``__init__.py`` inside of a package belong to it: ``package/inner`` is ``package.inner``.
    ``others`` are the folders above, up to the root, that may be on the path instead: the one of
    ``space/core``, where only ``core`` has an ``__init__.py``.
    """

    def __init__(self, folder: Path, root: Path, packages: frozenset[Path]) -> None:
        around = [above for above in (folder, *folder.parents) if above in packages]
        self.home = around[-1].parent if around else folder
        above = self.home.parents
        outside = self.home == root or root not in above
        self.others = () if outside else tuple(above[: above.index(root) + 1])


def dotted(path: Path, folder: Path) -> str:
    """The import name of a file when ``folder`` is on the path."""
    parts = path.with_suffix("").relative_to(folder).parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) or path.parent.name
