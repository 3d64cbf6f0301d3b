"""What all files of a tree tell of a place: hazards, devices, and who else gives something to a name."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.models import vocabulary
from streamlint.models.schema import Lib

if TYPE_CHECKING:
    from streamlint.fixes.text import Source
    from streamlint.interp.state.project import Project


@dataclass(slots=True)
class Surroundings:
    """Asks the texts of all files: see ``run/searches.py``."""

    project: Project
    _devices: dict[str, tuple[bool, bool]] = field(default_factory=dict)

    def are_quiet(self) -> bool:
        """Whether no file has a hazard: see ``hazards.py``."""
        return not self.project.hazards()

    def are_on_one_device(self, source: Source, libs: set[Lib]) -> bool:
        """Whether an event is recorded on the device where it was made; PyTorch sees to that by itself.

        But it has several kinds: ``torch.cuda.current_stream()`` cannot wait for a stream of ``torch.xpu``.
        """
        if source.path not in self._devices:
            homes = models.BY_LIB[Lib.TORCH].homes
            chains = (node for node in ast.walk(source.tree) if isinstance(node, ast.Attribute))
            paths = {source.path_of(node) for node in chains} | {
                each.path for each in source.imports.values()
            }
            kinds = {home for home in homes for path in paths if path and f"{path}.".startswith(f"{home}.")}
            selects = any(_selects_device(source, node) for node in ast.walk(source.tree))
            self._devices[source.path] = len(kinds) < 2, not selects
        one_kind, one_device = self._devices[source.path]
        return one_kind and (one_device or libs == {Lib.TORCH})

    def names_are_written(self, source: Source) -> bool:
        """Whether a file gives nothing to a name that it computes: ``globals()["torch"] = None``."""
        return self._home(source) not in self.project.storing(None)

    def is_given_here_alone(self, source: Source, name: str) -> bool:
        """Whether no other file gives something to an attribute of a name, and none to one that it computes.

        ``worker.side = None``, ``setattr(worker, name, None)``; a name in quotes may be given to whoever is
        called: ``monkeypatch.setattr(worker, "side", None)``.
        """
        others = {*self.project.storing(name)} - {self._home(source)}
        return not others and not self.project.storing(None) and name not in source.uses.words

    def _home(self, source: Source) -> str:
        module = self.project.module_at(source.path)
        return module.name if module is not None else ""


def _selects_device(source: Source, node: ast.AST) -> bool:
    """Whether another device than the first may be current from here on: ``Device(1).use()``."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            row = models.find_function(source.path_of(func) or "")
            if row is None:
                return isinstance(func, ast.Attribute) and func.attr in vocabulary.SELECTS_DEVICE
            return vocabulary.names_device(row[1]) and bool(args or keywords)
        case ast.Attribute() as devices:
            return source.path_of(devices) == "numba.cuda.gpus"
        case _:
            return False
