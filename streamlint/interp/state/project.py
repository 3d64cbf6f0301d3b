"""The analyzed tree: modules by name, indexed on demand, and names resolved across them."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from streamlint import ir, models
from streamlint.interp.state.budgets import LIMITS, Budgets
from streamlint.interp.state.values import ApiV, ClassV, FuncV, ModuleV, Value
from streamlint.models import python, torch
from streamlint.models.schema import Lib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from streamlint.interp.state.kept import K, Kept, V

FRAMEWORKS = tuple(f"{root}." for root in sorted(models.ROOTS))
_PLAIN_BASES = python.PLAIN_BASES | torch.PLAIN_BASES
"""Outside bases that neither set stream attributes nor call back into the class in an order of their own."""


@dataclass(slots=True)
class Project:
    """All modules that can be resolved.

    ``load`` indexes one module by dotted name and returns None if there is no such file or if it
    cannot be parsed (the engine has then noted the error).
    """

    load: Callable[[str], ir.Module | None]
    mentioning: Callable[[str], tuple[str, ...]] = lambda _: ()
    """The names of the modules in whose text a stream is put into an attribute: ``x.copy_stream = ...``."""
    calling: Callable[[str], tuple[str, ...]] = lambda _: ()
    """The names of the modules in whose text a function or class of a name is called."""
    storing: Callable[[str | None], tuple[str, ...]] = lambda _: ()
    """The names of modules whose text gives something to others' attributes of a name; None: of any."""
    hazards: Callable[[], tuple[str, ...]] = lambda: ()
    """The names of the modules in whose text something is a hazard to waits that are put in."""
    beside: Callable[[str, str], str] = lambda _, module: module
    """What a module of a name is called that lies beside a file: see ``Names.beside``."""
    budgets: Budgets = field(default_factory=Budgets)
    """Those of the file that is analyzed."""
    modules: dict[str, ir.Module | None] = field(default_factory=dict)
    resolving: set[tuple[str, str]] = field(default_factory=set)
    _kept: dict[Kept[Any, Any], dict[Any, Any]] = field(default_factory=dict)
    _sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _members: dict[tuple[str, str], Value | None] = field(default_factory=dict)
    _variables: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    _ancestors: dict[ir.ClassDecl, tuple[list[ir.ClassDecl], bool]] = field(default_factory=dict)

    def kept(self, kind: Kept[K, V]) -> dict[K, V]:
        """What is kept of one kind."""
        answers = self._kept.get(kind)
        if answers is None:
            answers = self._kept[kind] = {}
        return answers

    def once(self, kind: Kept[K, V], asked: K, find: Callable[[], V]) -> V:
        """What is found out the first time; a question that leads back to itself is asked again."""
        answers = self.kept(kind)
        if asked not in answers:
            answers[asked] = find()
        return answers[asked]

    def module(self, name: str) -> ir.Module | None:
        if name not in self.modules:
            loaded = self.load(name)
            # Under another name than its own it is the same module, with the same variables.
            self.modules[name] = loaded if loaded is None else self.modules.setdefault(loaded.name, loaded)
        return self.modules[name]

    def module_at(self, path: str) -> ir.Module | None:
        """Of the modules that were looked at, the one of a file."""
        return next((each for each in self.modules.values() if each is not None and each.path == path), None)

    def others(self, names: Iterable[str], path: str) -> Iterator[ir.Module]:
        """The modules of some names, as far as there are any, but for the one that a file holds."""
        for name in names:
            module = self.module(name)
            if module is not None and module.path != path:
                yield module

    def arrays_of(self, name: str) -> Lib:
        """Whose a module's unknown arrays and streams are: of the library that it imports, or PyTorch's."""
        if not self.imports(name, "torch"):
            for lib in (Lib.CUPY, Lib.WARP):
                if self.imports(name, lib.value):
                    return lib
        return Lib.TORCH

    def imports(self, name: str, *roots: str) -> bool:
        """Whether a module imports anything of one of some packages."""
        module = self.module(name)
        return module is not None and not module.roots.isdisjoint(roots)

    def kernel_sources(self, name: str) -> tuple[str, ...]:
        """The CUDA source that a module assigns to its variables as literals."""
        if name not in self._sources:
            module = self.module(name)
            body = module.load_body() if module is not None else ()
            texts = [
                s.value.value for s in body if isinstance(s, ir.Assign) and isinstance(s.value, ir.Const)
            ]
            plain = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in texts]
            self._sources[name] = tuple(t for t in plain if isinstance(t, str) and "__global__" in t)
        return self._sources[name]

    def path(self, dotted: str) -> Value:
        """What a dotted path means: a framework's API, something in the tree, or an outside name.

        Frameworks come first, so that analyzing PyTorch's own sources still sees
        ``torch.cuda.Stream`` as the API and not as Python code.
        """
        if models.find_function(dotted) or dotted in models.MODULES or dotted in models.ROOTS:
            return ApiV(dotted)
        if dotted.count(".") == 1 and dotted.startswith("torch."):
            module = self.module(dotted)
            return ApiV(dotted) if module is None else ModuleV(module.name)
        module = self.module(dotted)
        if module is not None:
            return ModuleV(module.name)
        head, _, last = dotted.rpartition(".")
        if head and self.module(head) is not None:
            found = self.member(head, last)
            if found is not None:
                return found
        return ApiV(dotted)

    def member(self, module_name: str, name: str) -> Value | None:
        """A function, class, submodule or import of a module; None for other names."""
        key = (module_name, name)
        if key in self._members:
            return self._members[key]
        module = self.module(module_name)
        if module is None or key in self.resolving:
            return None
        found: Value | None
        if name in module.functions:
            found = FuncV(module.functions[name])
        elif name in module.classes:
            found = ClassV(module.classes[name])
        else:
            self.resolving.add(key)
            try:
                found = self._imported(module, name)
            finally:
                self.resolving.discard(key)
        if found is not None or not self.resolving:
            self._members[key] = found
        return found

    def _imported(self, module: ir.Module, name: str) -> Value | None:
        # The last one that binds the name.
        for imported in reversed(module.imports):
            if imported.name == name:
                return self.imported(imported)
            if imported.attribute == "*":
                source = self.source(module, imported.module)
                found = self._among_all(source, name)
                if found is None and not _sets(module, name):
                    found = self._variable_among_all(source, name)
                if found is not None:
                    return found
        inner = self.module(f"{module.name}.{name}")
        return ModuleV(inner.name) if inner is not None else None

    def _among_all(self, module: str, name: str) -> Value | None:
        """What ``from module import *`` binds a name to: of a library, what the tables have of it.

        ``from pycuda.driver import *``, and then ``memcpy_htod_async(dev, host, Stream())``.
        """
        dotted = f"{module}.{name}"
        if models.find_function(dotted) or dotted in models.MODULES or dotted in models.STREAMS:
            return ApiV(dotted)
        return self.member(module, name) if self.module(module) is not None else None

    def _variable_among_all(self, module: str, name: str) -> Value | None:
        """``from config import *``, and then ``with torch.cuda.stream(COPY):``; not ``_COPY``."""
        dotted = f"{module}.{name}"
        return ApiV(dotted) if not name.startswith("_") and self.variable(dotted) is not None else None

    def imported(self, statement: ir.Import) -> Value:
        """The value that an import binds."""
        source = self.beside(statement.span.path, statement.module)
        if statement.attribute is None or statement.attribute == "*":
            return self.path(source)
        dotted = f"{source}.{statement.attribute}"
        if models.find_function(dotted) or dotted in models.MODULES:
            return ApiV(dotted)
        if self.module(source) is not None:
            found = self.member(source, statement.attribute)
            if found is not None:
                return found
        return self.path(dotted)

    def source(self, module: ir.Module, name: str) -> str:
        """The module that an import in another one means."""
        return self.beside(module.path, name)

    def variable(self, dotted: str) -> tuple[str, str] | None:
        """The module and the name of a variable of the tree: ``from .streams import SIDE``."""
        if dotted not in self._variables:
            head, _, last = dotted.rpartition(".")
            module = self.module(head) if head and not dotted.startswith(FRAMEWORKS) else None
            known = module is not None and last in module.assigned and self.member(head, last) is None
            self._variables[dotted] = (module.name, last) if known and module is not None else None
        return self._variables[dotted]

    def class_named(self, module_name: str, dotted: str) -> ir.ClassDecl | None:
        """The class that a base expression such as ``base.Worker`` names, seen from a module."""
        value = self.named(module_name, dotted)
        return value.decl if isinstance(value, ClassV) else None

    def named(self, module_name: str, dotted: str) -> Value | None:
        """What a dotted name means in a module: a member, an inner class, or a name outside of the tree."""
        head, *rest = dotted.split(".")
        value = self.member(module_name, head)
        for name in rest:
            match value:
                case ModuleV(inner):
                    value = self.member(inner, name)
                case ClassV(decl) if name in decl.inner:
                    value = ClassV(decl.inner[name])
                case ApiV(path):
                    value = self.path(f"{path}.{name}")
                case _:
                    return None
        return value

    def ancestors(self, cls: ir.ClassDecl) -> tuple[list[ir.ClassDecl], bool]:
        """The class and its bases in lookup order, and whether all of them are in the tree."""
        waiting = [cls]  # not by recursion: a generated tree may have a chain of thousands of classes
        entered: set[ir.ClassDecl] = set()
        while waiting:
            here = waiting.pop()
            if here in entered:
                entered.discard(here)
                self._ancestors[here] = self._in_order(here)
            elif here not in self._ancestors:
                entered.add(here)
                self._ancestors[here] = ([here], False)  # where bases go round in a circle
                waiting += [here, *(base for base in self._bases(here) if base is not None)]
        return self._ancestors[cls]

    def _bases(self, cls: ir.ClassDecl) -> list[ir.ClassDecl | None]:
        return [self.class_named(cls.module, base) for base in cls.bases]

    def _in_order(self, cls: ir.ClassDecl) -> tuple[list[ir.ClassDecl], bool]:
        bases = self._bases(cls)
        parents = [base for base in bases if base is not None]
        complete = all(self._ancestors[parent][1] for parent in parents) and all(
            base is not None or name.rpartition(".")[2] in _PLAIN_BASES
            for base, name in zip(bases, cls.bases, strict=True)
        )
        merged = _merged([*(self._ancestors[parent][0] for parent in parents), parents])
        order = [cls, *islice(merged, LIMITS.ancestors)]
        if len(order) > LIMITS.ancestors:
            self.budgets.left_out.add("classes that a class inherits from")
        return order, complete and len(order) <= LIMITS.ancestors


def _merged(lines: Sequence[Sequence[ir.ClassDecl]]) -> Iterator[ir.ClassDecl]:
    """Python's order of bases (C3): a class before its bases, and these as each class orders them.

    Where there is none, Python refuses the class; the first that is left comes next.
    """
    waiting = [deque(line) for line in lines if line]
    later = Counter(cls for line in waiting for cls in islice(line, 1, None))
    while waiting:
        heads = [line[0] for line in waiting]
        taken = next((cls for cls in heads if not later[cls]), heads[0])
        yield taken
        for line in waiting:
            if line[0] is taken:
                line.popleft()
                if line:
                    later[line[0]] -= 1
            elif later[taken] and taken in line:
                line.remove(taken)
                later[taken] -= 1
        waiting = [line for line in waiting if line]


def _sets(module: ir.Module, name: str) -> bool:
    """Whether a module gives a variable of its own a value, at its top or in functions."""
    return name in module.assigned or any(name in decl.globals for decl in ir.all_functions(module))
