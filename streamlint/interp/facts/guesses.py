"""Arithmetic on unknown values: numbers or tensors, which only later code shows.

``h = x * 2`` on an unknown ``x`` may be device work. An empty op marks where and on which stream;
when the path is done and ``h`` turned out to be a tensor (``h.record_stream(s)``, ``h.sum()``), or one
of its operands did, the op gets its reads and its write. Numbers stay empty ops, which order nothing; on a
default stream, where work would stand between two blocking streams, nothing is left of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import company, known_values, no_memory
from streamlint.interp.facts.kinds import NO_MEMORY, Kind
from streamlint.interp.state import flavors, outside, symbols
from streamlint.interp.state.put_off import Guess
from streamlint.interp.state.values import (
    BufferV,
    ConstV,
    Flavor,
    SymV,
    TupleV,
    Value,
    reading,
)
from streamlint.models import members
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Barrier,
    Evidence,
    HostAccess,
    Launch,
    Mode,
    Origin,
    Role,
    Space,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span
    from streamlint.trace import StreamId

_OPERATORS = frozenset({"+", "-", "*", "/", "@", "**", "//"})


def evidence(m: Machine, op: str, *operands: Value) -> Evidence:
    """How it is known that an operator on unknown operands is work: by the text of the module.

    Also by where it stands: the block of a stream, or of a capture, that holds nothing but operators is there
    for them, and numbers need none.
    """
    if op not in _OPERATORS:
        return Evidence.ASSUMED
    facts = [known_values.of_value(m, value.symbol) for value in operands if isinstance(value, SymV)]
    shown = [fact.by for fact in facts if fact.kind is Kind.MEMORY]
    if m.frame.operators_only and not all(fact.kind is Kind.PLAIN for fact in facts):
        shown.append(Evidence.INFERRED)
    return max(shown, default=Evidence.ASSUMED)


def _is_address(symbol: Symbol) -> bool:
    """``array.data.ptr``, ``x.data_ptr()``"""
    match symbol:
        case symbols.Call(func, ()):
            return symbols.last_name(func).endswith("ptr")
        case _:
            return symbols.last_name(symbol).endswith(members.ADDRESS_ENDS)


def is_captured(m: Machine) -> bool:
    """Whether an operator is recorded into a graph: what it does is done when the graph is launched."""
    return m.captures.has(_stream(m))


def _stream(m: Machine) -> StreamId:
    return m.current_stream(m.project.arrays_of(m.frame.env.module)).id


def _are_numbers(m: Machine, *operands: Value) -> bool:
    """``self.size // 2`` of a ``size: int``."""
    unknown = [value for value in operands if not isinstance(value, ConstV)]
    return all(
        isinstance(value, SymV) and known_values.of_value(m, value.symbol).kind is Kind.PLAIN
        for value in unknown
    )


def note(m: Machine, op: str, left: Value, right: Value, result: SymV, span: Span) -> None:
    """Marks an operator that may be device work; what is computed of numbers is one."""
    if _are_numbers(m, left, right):
        m.plain.add(result.symbol)
        return
    if not m.frame.touches or op not in _OPERATORS or result.symbol in m.guesses or is_captured(m):
        return
    if not all(isinstance(value, (SymV, ConstV)) for value in (left, right)):
        return
    if any(isinstance(value, SymV) and _is_address(value.symbol) for value in (left, right)):
        return
    flavor = flavors.of_arrays(m.project.arrays_of(m.frame.env.module))
    number = m.emit(Launch(m.site(span), m.lane, stream=_stream(m), accesses=(), name=f"operator {op}"))
    kind = evidence(m, op, left, right)
    m.guesses[result.symbol] = Guess(number, result.symbol, (left, right), flavor, kind)


def buffer(m: Machine, guess: Guess) -> BufferV:
    """The result of an operator that turned out to be a tensor."""
    op = m.ops[guess.op]
    assert isinstance(op, Launch)
    made = m.new_buffer(guess.name, Space.UNKNOWN, Origin.RESULT, guess.flavor, None, op.stream)
    m.buffers[made.id] = replace(m.buffers[made.id], kind=guess.kind, residence=Evidence.ASSUMED)
    m.roles[guess.result] = made
    return made


def computed_aside(m: Machine, result: Value) -> None:
    """A result that was computed in the block of a stream is a tensor: numbers need none.

    ``with torch.cuda.stream(self.side): y = self.kept * self.score``, then ``return y``.
    """
    for value in result.items if isinstance(result, TupleV) else (result,):
        guess = m.guesses.get(value.symbol) if isinstance(value, SymV) else None
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
        if result is None and guess.kind is not Evidence.ASSUMED:
            result = buffer(m, guess)
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
            accesses = [reading(view) for view in reads]
            accesses.append(Access(made.id, Mode.WRITE))
            _as_sure(m, made, reads)
            m.ops[guess.op] = replace(op, accesses=tuple(accesses), library=flavors.product(made))
    _sources(m)
    company.settle(m)
    no_memory.settle(m)
    _take_back_host_work(m)


def _take_back_host_work(m: Machine) -> None:
    """What made memory that turned out to be pageable ran on the host, whatever stream was current.

    ``flat = torch.cat(parts)`` or ``torch.rand(n, device=device)``, and then ``flat.pin_memory()``: only
    memory of the host can be pinned.
    """
    for number, op in enumerate(m.ops):
        if isinstance(op, Launch) and op.role is Role.CODE and any(_made_on_host(m, a) for a in op.accesses):
            m.ops[number] = HostAccess(op.at, op.lane, op.doubts, accesses=op.accesses, name=op.name)


def _made_on_host(m: Machine, access: Access) -> bool:
    made = m.buffers[access.buffer]
    ours = made.origin in (Origin.RESULT, Origin.ALLOCATED)
    return access.mode is Mode.WRITE and ours and made.space is Space.PAGEABLE


def _as_sure(m: Machine, made: BufferV, operands: list[BufferV]) -> None:
    """A result is a tensor if an operand is one; the only operand, if the result is one."""
    kinds = [m.buffers[view.id].kind for view in operands]
    m.is_memory(made, max(kinds, default=Evidence.ASSUMED))
    if len(operands) == 1:
        m.made_of[made.id] = operands[0].id


def _sources(m: Machine) -> None:
    """What was made of one operand and is used as a tensor came from a tensor: ``y = layer(x); y.sum()``."""
    for made, operand in reversed(list(m.made_of.items())):
        m.is_memory(BufferV(operand), min(Evidence.INFERRED, m.buffers[made].kind))
    for made, operand in m.made_of.items():
        m.is_memory(BufferV(made), min(Evidence.INFERRED, m.buffers[operand].kind))


def _is_host_array(m: Machine, value: Value | None) -> bool:
    return isinstance(value, BufferV) and m.space(value) is Space.PAGEABLE


def _operands_are_tensors(m: Machine, guess: Guess) -> None:
    unknown = [value for value in guess.operands if isinstance(value, SymV)]
    for value in unknown:
        made = m.guesses.get(value.symbol)
        if value.symbol not in m.roles and made is not None:
            buffer(m, made)
            continue
        fact = known_values.of_value(m, value.symbol)
        only = len(unknown) == 1 and not symbols.is_computed(value.symbol) and fact.kind not in NO_MEMORY
        if value.symbol not in m.roles and (only or fact.kind is Kind.MEMORY):
            view = m.roles[value.symbol] = outside.memory(m, value.symbol, kind=fact.by)
            m.lives(view, fact.space, fact.residence)


def _operands_are_host_arrays(m: Machine, guess: Guess) -> None:
    """What numpy computes comes from numpy: ``torch.from_numpy(positions + offsets)``."""
    for value in guess.operands:
        made = m.guesses.get(value.symbol) if isinstance(value, SymV) else None
        if made is not None and made.result not in m.roles:
            m.is_host_array(buffer(m, made))


def _role(m: Machine, value: Value) -> Value | None:
    return m.roles.get(value.symbol) if isinstance(value, SymV) else None
