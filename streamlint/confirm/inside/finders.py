"""What a finder of ours asks the others for. Needs nothing outside the standard library."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def spec_of_others(
    own: object, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    """What the first other finder on ``sys.meta_path`` knows of a module; ``None`` if none does."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if finder is own or find is None:
            continue
        spec: ModuleSpec | None = find(name, path, target)
        if spec is not None:
            return spec
    return None
