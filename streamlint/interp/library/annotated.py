"""What annotations say of the values that are bound to them, or that functions return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import known
from streamlint.interp.facts.kinds import Kind
from streamlint.interp.library import tensors
from streamlint.interp.state import names
from streamlint.interp.state.values import BufferV, Flavor, SymV, Value
from streamlint.trace import Evidence

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.interp.state.machine import Machine


def says(m: Machine, module: str, annotation: ir.Expr | None, value: Value) -> None:
    """Notes what an annotation shows to be no memory: ``temperature: float``, ``def width(self) -> int``."""
    if annotation is None:
        return
    if known.facts_of(m.project).of_annotation(module, annotation).kind is Kind.PLAIN:
        is_plain(m, names.settle(m, value))


def is_tensor(m: Machine, value: Value) -> None:
    """``def translate(self, rows: torch.Tensor)`` is called with ``batch.rows``."""
    if isinstance(value, SymV):
        m.forms.tensors.add(value.symbol)


def is_host_array(m: Machine, value: Value) -> None:
    """``def fill(rows: np.ndarray)`` is called with ``(lens + 1) // 2``, of which nothing else is known."""
    if isinstance(value, SymV):
        value = tensors.as_buffer(m, value, Flavor.ARRAY, Evidence.INFERRED)
    if isinstance(value, BufferV):
        m.is_host_array(value)


def is_plain(m: Machine, value: Value) -> None:
    """A number or the like; also where it was taken for a tensor before.

    It may have taken part in arithmetic with a tensor, or unresolved code made it of one.
    """
    match value:
        case SymV(symbol):
            m.plain.add(symbol)
        case BufferV(number) if m.buffers[number].kind is not Evidence.SHOWN:
            m.objects.add(number)
        case _:
            pass
