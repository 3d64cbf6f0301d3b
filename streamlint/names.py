"""Names of modules as ``import`` statements have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_BY_PLACE = "<"


def by_place(path: str) -> str:
    """The name of a module that nothing imports by another one: a second ``train.py``."""
    return f"{_BY_PLACE}{path}>"


def package_of(own: str, path: str, *, is_package: bool) -> list[str]:
    """The package that a module of this name and file stands in, or is."""
    if own.startswith(_BY_PLACE):
        return path.split("/")[:-1]
    parts = own.split(".") if own else []
    return parts if is_package else parts[:-1]


def relative(package: Sequence[str], path: str, level: int, module: str) -> str | None:
    """What a relative import names in a file of a package; None where it leads above the root.

    ``from ..utils import streams`` in ``src/pipeline/stage.py``, where neither folder has an ``__init__.py``,
    leads above the package, and goes on by folders: ``src.utils``. ``path`` is that from the root to the
    file.
    """
    above = level - 1
    parts = list(package) if above <= len(package) else path.split("/")[:-1]
    if above > len(parts):
        return None
    kept = parts[: len(parts) - above]
    return ".".join([*kept, module] if module else kept)
