"""Calls that copy only if there is something to do: ``x.contiguous()``, ``x.to(device)``, ``x.float()``.

Where there is nothing to do they launch nothing and give back ``x``. A problem with the copy, or with the
memory that it made, is one only if there was a copy, or if what is unordered then is so without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.judging import evidence
from streamlint.judging.responsibility import answered
from streamlint.order.hb import Verdict
from streamlint.rules.base import is_return, stream_of
from streamlint.trace import Alloc, Copy, Doubt, Free, HostEffect, KeepAlive, Launch, Makes, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.entries.runs import Entry
    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import BufferId, OpId

_NONE = frozenset[Doubt]()
_ALIAS = frozenset({Doubt.ALIAS})
_PATH = frozenset({Doubt.PATH})
_RESULT = frozenset({Doubt.RESULT})


def doubts_of(judged: Judged, problem: Problem, entry: Entry) -> frozenset[Doubt]:
    """The doubt about a problem that there is only if a call has copied what it may have given back."""
    if problem.earlier is None:
        return _NONE
    found = [
        _of_copy(judged, problem, problem.earlier, buffer, entry)
        for buffer in evidence.memory_of(judged, problem)
    ]
    return min(found, key=_order, default=_NONE)


def _order(doubts: frozenset[Doubt]) -> int:
    return (_NONE, _PATH, _RESULT, _ALIAS).index(doubts)


def _of_copy(
    judged: Judged, problem: Problem, first: OpId, buffer: BufferId, entry: Entry
) -> frozenset[Doubt]:
    second = problem.later
    known = judged.trace.buffers
    source = known[buffer].instead_of
    later = judged.op(second)
    match later:
        case KeepAlive(stream=stream) if source is not None:
            # x.contiguous().record_stream(s): what it may be itself was allocated elsewhere.
            elsewhere = any(known[one].alloc_stream != stream for one in _chain(judged, source))
            return _ALIAS if elsewhere else _NONE
        case Alloc(buffer=allocated) if allocated == buffer:
            return _ALIAS if source is not None else _NONE
        case Alloc() | Free():
            # consume(x.contiguous(), side): x itself may be memory of the stream that uses it.
            user = stream_of(judged.op(first))
            made_there = source is not None and any(
                known[one].alloc_stream == user for one in _chain(judged, source)
            )
            return _ALIAS if made_there else _of_last_use(judged, first, second, buffer)
        case _:
            pass
    made = _made_from(judged, second, buffer)
    if made is not None and known[made].elsewhere and isinstance(judged.op(first), Launch):
        # west = x.to(west_device): what a device still writes is there already, or PyTorch orders the copy
        # between the devices.
        return _ALIAS
    if made is not None:
        # side: y = x.contiguous(); y * 2. If the first one reads nothing, the second one does.
        early = _early_uses(judged, first, second, made)
        if early and all(is_return(judged.op(number)) for number in early):
            # return x.contiguous(): x itself would be handed back, which may be the caller's business.
            return _RESULT - answered(judged, replace(problem, later=early[0]), entry)
        return _NONE if early else _doubt(judged, second)
    if source is not None and _made_from(judged, first, source) == buffer and not _is_upload(judged, first):
        # side: y = (x * 2).contiguous(), and another stream reads y: the product is not waited for either.
        return _NONE if _is_written_late(judged, first, second, source) else _doubt(judged, first)
    return _NONE


def _of_last_use(judged: Judged, last: OpId, alloc: OpId, buffer: BufferId) -> frozenset[Doubt]:
    """Memory that was dropped behind its last use, which may have read nothing.

    ``return x.contiguous()``, and ``x`` is of another stream: there is no use if that is ``x``, and no drop.
    """
    if _made_from(judged, last, buffer) is None:
        return _NONE
    user = stream_of(judged.op(last))
    further = any(
        stream_of(judged.op(number)) == user
        and _made_from(judged, number, buffer) is None
        and judged.hb.ordered(number, alloc).verdict is not Verdict.YES
        for number in judged.uses(buffer, before=last)
    )
    return _NONE if further else _doubt(judged, last)


def _doubt(judged: Judged, conversion: OpId) -> frozenset[Doubt]:
    """Who converts to a type has other types, some of the time; ``contiguous()`` is mostly for safety."""
    op = judged.op(conversion)
    return _PATH if isinstance(op, Launch) and op.makes is Makes.CONVERTED else _ALIAS


def _chain(judged: Judged, buffer: BufferId) -> Iterator[BufferId]:
    """What memory may be, and what that may be itself."""
    number: BufferId | None = buffer
    while number is not None:
        yield number
        number = judged.trace.buffers[number].instead_of


def _made_from(judged: Judged, number: OpId, operand: BufferId) -> BufferId | None:
    """What a call makes of its operand, if it may be that itself."""
    op = judged.op(number)
    if not isinstance(op, (Launch, Copy)):
        return None
    made = (access.buffer for access in op.accesses if access.mode is Mode.WRITE)
    return next((one for one in made if judged.trace.buffers[one].instead_of == operand), None)


def _is_upload(judged: Judged, number: OpId) -> bool:
    """Whether ``x`` is on the host: who wrote ``x.to(device, non_blocking=True)`` need not wait."""
    op = judged.op(number)
    return isinstance(op, Copy) and op.host is HostEffect.ASYNC


def _early_uses(judged: Judged, first: OpId, conversion: OpId, made: BufferId) -> list[OpId]:
    """Where what a conversion gives is used before ``first`` is known to be complete."""
    found: list[OpId] = []
    later = conversion + 1
    for number in judged.touching(made, later):
        if judged.hb.ordered(first, number).verdict is Verdict.YES:
            continue
        further = _made_from(judged, number, made)
        found += [number] if further is None else _early_uses(judged, first, number, further)
    return found


def _is_written_late(judged: Judged, conversion: OpId, second: OpId, source: BufferId) -> bool:
    """Whether the operand of a conversion is written by what is not known to be complete at ``second``."""
    for number in judged.uses(source, before=conversion):
        op = judged.op(number)
        assert isinstance(op, (Launch, Copy)), "these are indexed"
        if not any(access.buffer == source and access.mode.writes for access in op.accesses):
            continue
        if judged.hb.ordered(number, second).verdict is Verdict.YES:
            continue
        before = judged.trace.buffers[source].instead_of
        if before is None or _made_from(judged, number, before) != source:
            return True
        if _is_written_late(judged, number, second, before):
            return True
    return False
