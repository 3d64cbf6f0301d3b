"""What runs beside a wait that is put in: whether all that it may wait for ends, and nobody captures it.

A kernel that polls a flag ends when the host, or a later copy, sets it; a callback may wait for a lock; a
collective for other processes. A wait that is put in front of what they wait for never ends. A capture
refuses the host's waits, and those for work outside of it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.models import vocabulary
from streamlint.models.schema import Lib

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.fixes.captured import Captures, Code
    from streamlint.fixes.text import Scope, Source
    from streamlint.interp.state.project import Project


@dataclass(slots=True)
class Surroundings:
    """Asks the files in which the paths of one file work, and all files whether they capture."""

    project: Project
    sources: Callable[[str], Source | None]
    files: frozenset[str]
    captures: Captures
    _are_quiet: bool | None = None
    _devices: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    _captured: dict[Code, bool] = field(default_factory=dict)

    def are_quiet(self) -> bool:
        if self._are_quiet is None:
            texts = [self.sources(path) for path in sorted(self.files)]
            self._are_quiet = all(each is not None and _ends(each) for each in texts)
        return self._are_quiet

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

    def may_be_captured(self, source: Source, scope: Scope) -> bool:
        """Whether a capture may be open where a function runs."""
        module = self.project.module_at(source.path)
        parts: list[str] = []
        node: ast.AST = scope
        while node is not source.tree:
            parts += [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
            node = source.owners[node]
        code = (module.name if module is not None else "", ".".join(reversed(parts)))
        if code not in self._captured:
            self._captured[code] = self.captures.may_reach(code)
        return self._captured[code]


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


def _ends(source: Source) -> bool:
    """Whether all work that a file queues ends by itself: operators, copies, kernels that do not poll."""
    return all(
        _call_ends(source, node)
        if isinstance(node, ast.Call)
        else not (isinstance(node, ast.FunctionDef) and _is_kernel(source, node))
        or _function_ends(source, node)
        for node in ast.walk(source.tree)
    )


def _is_kernel(source: Source, function: ast.FunctionDef) -> bool:
    """``@cuda.jit``: whether a library makes something else of it. PyTorch does not."""
    made_by = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
    roots = {(source.path_of(each) or "").partition(".")[0] for each in made_by}
    return not roots.isdisjoint(vocabulary.ROOTS - {"torch"} | {"triton"})


def _call_ends(source: Source, call: ast.Call) -> bool:
    match call.func:
        case ast.Subscript(value=kernel) | ast.Call(func=ast.Attribute(value=kernel, attr="forall")):
            return _kernel_ends(source, kernel)
        case called:
            path = source.path_of(called)
    given = [*call.args, *(each.value for each in call.keywords)]
    if path is None:
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        roots = frozenset(each.path.partition(".")[0] for each in source.imports.values())
        return name not in vocabulary.known_to(roots, vocabulary.MAY_WAIT)
    row = models.find_function(path)
    if row is None:  # a call of CUDA itself that no table has may wait for a value in memory
        return not path.startswith(_ALL_KNOWN) and not any(_loops(source, each) for each in given)
    if vocabulary.launches(row[1]):
        return bool(given) and _kernel_ends(source, given[0])
    if vocabulary.makes_work(row[1]):
        return bool(given) and all(_loops(source, each) is False for each in given)
    return not vocabulary.may_wait(row[1]) and not any(_loops(source, each) for each in given)


_ALL_KNOWN = tuple(
    f"{module}."
    for lib in (Lib.RUNTIME, Lib.DRIVER, Lib.DISTRIBUTED)
    for module in models.BY_LIB[lib].modules
)


def _loops(source: Source, code: ast.expr) -> bool | None:
    """Whether a kernel in C++ has a loop, as ``while (*flag == 0);`` is; None where it is not in sight."""
    match code:
        case ast.Constant(value=text):
            return _LOOPS.search(str(text)) is not None
        case ast.List(elts=codes) | ast.Tuple(elts=codes):
            told = {_loops(source, each) for each in codes}
            return True if True in told else None if None in told else False
        case ast.Name():
            given = source.given(source.tree).get(ast.dump(code), [])
            value = given[0].value if len(given) == 1 else None
            return _loops(source, value) if isinstance(value, ast.Constant) else None
        case _:
            return None


_LOOPS = re.compile(r"\b(while|for)\s*\(|\b(goto|asm)\b")


def _kernel_ends(source: Source, kernel: ast.expr) -> bool:
    """Whether it is a function of the file that ends."""
    match source.given(source.tree).get(ast.dump(kernel), []):
        case [only] if isinstance(only.statement, ast.FunctionDef):
            return _function_ends(source, only.statement)
        case _:
            return False


def _function_ends(source: Source, function: ast.FunctionDef) -> bool:
    """Whether it neither loops for what it does not know, nor calls what may.

    ``while flag[0] == 0: pass`` ends when somebody sets the flag.
    """
    inside = list(ast.walk(function))
    if any(isinstance(node, (ast.While, ast.Break)) for node in inside):
        return False
    called = (node.func for node in inside if isinstance(node, ast.Call))
    return all(_is_plain(source, each, function.name) for each in called)


def _is_plain(source: Source, called: ast.expr, caller: str) -> bool:
    """A function of a library or of Python, or another one of the file that ends."""
    path = source.path_of(called)
    if path is not None:
        return path.partition(".")[0] in vocabulary.ROOTS | {"math"}
    if isinstance(called, ast.Name) and called.id != caller and ast.dump(called) in source.given(source.tree):
        return _kernel_ends(source, called)
    return not isinstance(called, ast.Name) or ast.dump(called) not in source.given(source.tree)
