"""Copies that block only if their memory is on the host.

``kept.copy_(total)`` waits for all that was queued before if ``total`` is on the host. There no stream uses
it, so that nothing is wrong with it; where it is on a device, the copy orders nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.judging import evidence
from streamlint.order.hb import HappensBefore, Verdict
from streamlint.trace import Copy, Doubt, Evidence, HostEffect

if TYPE_CHECKING:
    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import BufferId, OpId


def doubts_of(judged: Judged, problem: Problem) -> frozenset[Doubt]:
    """The doubts of a problem, without those copies where its own memory would be on the host."""
    if Doubt.OBSERVED not in problem.doubts or problem.earlier is None:
        return problem.doubts
    memory = {one for one in evidence.memory_of(judged, problem) if _is_open(judged, one)}
    copies = [
        number
        for number in judged.numbers(Copy, first=problem.earlier, before=problem.later)
        if _blocks_for(judged, number, memory)
    ]
    if not copies:
        return problem.doubts
    ops = list(judged.trace.ops)
    for number in copies:
        op = ops[number]
        assert isinstance(op, Copy), "these are indexed"
        ops[number] = replace(op, host=HostEffect.ASYNC)
    order = HappensBefore(replace(judged.trace, ops=tuple(ops))).ordered(problem.earlier, problem.later)
    if order.verdict is Verdict.YES:
        return problem.doubts
    return problem.doubts - {Doubt.OBSERVED} | order.doubts


def _is_open(judged: Judged, buffer: BufferId) -> bool:
    """Whether some memory may be on the host for all that is known."""
    known = judged.trace.buffers[buffer]
    return not known.space.on_host and known.residence is Evidence.ASSUMED


def _blocks_for(judged: Judged, number: OpId, memory: set[BufferId]) -> bool:
    """Whether a copy blocks if some memory is on the host, and if not, then not."""
    op = judged.op(number)
    if not isinstance(op, Copy) or op.host is not HostEffect.BLOCKS_OBSERVED:
        return False
    ends = {access.buffer for access in op.accesses}
    unknown = {one for one in ends if _is_open(judged, one)}
    others = (judged.trace.buffers[one].space.on_host for one in ends - unknown)
    return bool(unknown) and unknown <= memory and not any(others)
