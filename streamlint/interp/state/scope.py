"""Where code stands, and what outside code calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.source import Span


@frozen()
class Target:
    """What outside code calls: a function, or a class of which it makes an object."""

    function: ir.FunctionDecl | None
    """None for a class without a constructor of its own."""
    cls: ir.ClassDecl | None = None
    """The class that is constructed."""

    @property
    def name(self) -> str:
        return self.called.name

    @property
    def module(self) -> str:
        return self.called.module

    @property
    def span(self) -> Span:
        return self.called.span

    @property
    def called(self) -> ir.FunctionDecl | ir.ClassDecl:
        found = self.cls or self.function
        assert found is not None
        return found

    def params(self) -> tuple[ir.Param, ...]:
        function = ir.code_of(self.function) if self.function is not None else None
        return function.params if function is not None else ()

    def positional(self) -> list[str]:
        """The parameters that arguments without a keyword are for."""
        bound = self.cls is not None or "." in self.called.qualname
        return [param.name for param in self.params() if param.kind == "positional"][1 if bound else 0 :]


@frozen()
class Scope:
    """Where an expression stands."""

    module: ir.Module
    function: ir.Function
    cls: ir.ClassDecl | None = None
    """The class whose method the function is."""

    @property
    def name(self) -> str:
        return self.function.qualname

    @property
    def receiver(self) -> str | None:
        """The method's name for its object."""
        return self.function.params[0].name if self.cls is not None and self.function.params else None
