"""Runs code of ours when the program imports a library, and rewrites the program's own modules."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import TYPE_CHECKING, Any

from streamlint.confirm.inside.finders import spec_of_others

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, ModuleType

    Compile = Callable[[bytes, str], CodeType]


class Finder:
    """A finder in front of all others: ``after`` has what to do once a module was loaded."""

    def __init__(
        self,
        after: dict[str, Callable[[ModuleType], None]],
        is_user: Callable[[str], bool],
        compile_source: Compile,
    ) -> None:
        self._after = after
        self._is_user = is_user
        self._compile = compile_source

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        for name in [name for name in self._after if name in sys.modules]:
            self._after.pop(name)(sys.modules[name])

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = spec_of_others(self, name, path, target)
        return self._wrapped(name, spec) if spec is not None else None

    def _wrapped(self, name: str, spec: ModuleSpec) -> ModuleSpec:
        if name in self._after and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._after.pop(name))  # type: ignore[assignment]
        elif type(spec.loader) is SourceFileLoader and spec.origin is not None and self._is_user(spec.origin):
            spec.loader = _Rewriting(spec.loader, self._compile)
        return spec


class _Loader:
    """The library's own loader, and a call once the module is there."""

    def __init__(self, loader: Any, after: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._after = after

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module shall not see that it was loaded by way of us.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._after(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Rewriting(SourceFileLoader):
    """Compiles the source of a module with changes; no byte code is read or written."""

    def __init__(self, loader: SourceFileLoader, compile_source: Compile) -> None:
        super().__init__(loader.name, loader.path)
        self._compile = compile_source

    def get_code(self, fullname: str) -> CodeType | None:  # noqa: ARG002  the name is the loader's own
        return self._compile(self.get_data(self.path), self.path)
