"""Arithmetic on unknown values: numbers or tensors, which only later code shows.

``h = x * 2`` on an unknown ``x`` may be device work. An empty op marks where and on which stream;
when the path is done and ``h`` turned out to be a tensor (``h.record_stream(s)``, ``h.sum()``), or one
of its operands did, the op gets its reads and its write. Numbers stay empty ops, which order nothing; on a
default stream, where work would stand between two blocking streams, nothing is left of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamlint.interp.state import flavors
from streamlint.interp.state.values import (
    BufferV,
    ConstV,
    Flavor,
    SymV,
    TupleV,
    Value,
)
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Barrier,
    Launch,
    Mode,
    Origin,
    Space,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_ADDRESSES = ("ptr", "ptr()", "handle", "address", "offset")
"""Ends of expressions that are numbers: ``array.data.ptr + offset``."""

_OPERATORS = frozenset({"+", "-", "*", "/", "@", "**", "//"})


@dataclass(frozen=True, slots=True)
class Guess:
    """One operator whose operands are unknown."""

    op: int
    result: str
    operands: tuple[Value, ...]
    flavor: Flavor = Flavor.TORCH
    name: str = ""
    """The first variable that held the result."""


def note(m: Machine, op: str, left: Value, right: Value, result: SymV, span: Span) -> None:
    """Marks an operator that may be device work."""
    if not m.frame.touches or op not in _OPERATORS or result.key in m.guesses:
        return
    if not all(isinstance(value, (SymV, ConstV)) for value in (left, right)):
        return
    if any(isinstance(value, SymV) and value.key.endswith(_ADDRESSES) for value in (left, right)):
        return
    cupy = m.project.is_cupy(m.frame.env.module)
    stream = m.current_stream(Lib.CUPY if cupy else Lib.TORCH).id
    number = m.emit(Launch(m.site(span), m.lane, stream=stream, accesses=(), name=f"operator {op}"))
    m.guesses[result.key] = Guess(
        number, result.key, (left, right), Flavor.DEVICE_ARRAY if cupy else Flavor.TORCH
    )


def buffer(m: Machine, guess: Guess) -> BufferV:
    """The result of an operator that turned out to be a tensor."""
    op = m.ops[guess.op]
    assert isinstance(op, Launch)
    made = m.new_buffer(guess.name, Space.UNKNOWN, Origin.RESULT, guess.flavor, None, op.stream)
    m.roles[guess.result] = made
    return made


def computed_aside(m: Machine, result: Value) -> None:
    """A result that was computed in the block of a stream is a tensor: numbers need none.

    ``with torch.cuda.stream(self.side): y = self.kept * self.score``, then ``return y``.
    """
    for value in result.items if isinstance(result, TupleV) else (result,):
        guess = m.guesses.get(value.key) if isinstance(value, SymV) else None
        if guess is not None and guess.result not in m.roles:
            op = m.ops[guess.op]
            if isinstance(op, Launch) and op.stream != m.current_stream(Lib.TORCH).id:
                buffer(m, guess)


def settle(m: Machine) -> None:
    """Gives the marked ops what is known at the end of the path.

    Tensors come from tensors and make tensors: ``g = h + 1; g.sum()`` shows that ``h`` is one too.
    """
    for guess in reversed(list(m.guesses.values())):
        result = m.roles.get(guess.result)
        if _is_host_array(m, result):
            _operands_are_host_arrays(m, guess)
        elif isinstance(result, BufferV):
            _operands_are_tensors(m, guess)
    for guess in m.guesses.values():
        op = m.ops[guess.op]
        if not isinstance(op, Launch):
            continue
        result = m.roles.get(guess.result)
        roles = [_role(m, value) for value in guess.operands]
        # Adding to an address computes an address.
        reads = [role for role in roles if isinstance(role, BufferV) and role.flavor is not Flavor.POINTER]
        is_work = bool(reads) or isinstance(result, BufferV)
        if _is_host_array(m, result) or (not is_work and m.streams[op.stream].is_default):
            m.ops[guess.op] = Barrier(op.at, op.lane, streams=(), name=op.name)
        elif is_work:
            made = result if isinstance(result, BufferV) else buffer(m, guess)
            accesses = [Access(view.id, Mode.READ, view.region) for view in reads]
            accesses.append(Access(made.id, Mode.WRITE))
            m.ops[guess.op] = replace(op, accesses=tuple(accesses), library=flavors.product(made))


def _is_host_array(m: Machine, value: Value | None) -> bool:
    return isinstance(value, BufferV) and m.space(value) is Space.PAGEABLE


def _operands_are_tensors(m: Machine, guess: Guess) -> None:
    unknown = [value for value in guess.operands if isinstance(value, SymV)]
    for value in unknown:
        made = m.guesses.get(value.key)
        if value.key not in m.roles and made is not None:
            buffer(m, made)
        elif value.key not in m.roles and len(unknown) == 1 and "(" not in value.key:
            m.roles[value.key] = m.argument(value.key)


def _operands_are_host_arrays(m: Machine, guess: Guess) -> None:
    """What numpy computes comes from numpy: ``torch.from_numpy(positions + offsets)``."""
    for value in guess.operands:
        made = m.guesses.get(value.key) if isinstance(value, SymV) else None
        if made is not None and made.result not in m.roles:
            m.is_host_array(buffer(m, made))


def _role(m: Machine, value: Value) -> Value | None:
    return m.roles.get(value.key) if isinstance(value, SymV) else None
