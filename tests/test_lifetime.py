"""Order and lifetime are separate facts: drops, frees, and the streams that may still use the memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from streamlint.judging.judge import judge
from streamlint.rules import sl401_missing_record_stream as sl401
from streamlint.rules import sl402_freed_while_in_use as sl402
from streamlint.rules import sl405_record_stream_on_owner as sl405
from streamlint.trace import (
    Access,
    BufferId,
    Doubt,
    Free,
    FreeKind,
    KeepAlive,
    Launch,
    Mode,
    OpId,
    Site,
    StreamId,
    StreamKind,
)
from tests.traces import Program, place

if TYPE_CHECKING:
    from streamlint.rules.base import Problem, Rule


class Memory(Program):
    """A program whose buffers belong to streams, as those of a caching allocator do."""

    def owned(self, stream: StreamId) -> BufferId:
        made = self.buffer()
        self.buffers[made] = replace(self.buffers[made], alloc_stream=stream)
        self.alloc(made, stream)
        return made

    def drop(self, buffer: BufferId, doubts: frozenset[Doubt] = frozenset()) -> OpId:
        at = Site(place(len(self.ops) + 1))
        return self.add(Free(at, doubts=doubts, buffer=buffer, kind=FreeKind.DROPPED))

    def keep(self, buffer: BufferId, stream: StreamId) -> OpId:
        return self.add(KeepAlive(Site(place(len(self.ops) + 1)), buffer=buffer, stream=stream))

    def join(self, after: StreamId, before: StreamId) -> None:  # type: ignore[override]
        event = self.event()
        self.record(before, event)
        self.wait(after, event)

    def problems(self, rule: Rule) -> list[Problem]:
        return list(rule.check(judge(self.trace())))


@pytest.fixture
def p() -> Memory:
    return Memory()


# ----------------------------------------------------------------------------- SL401


def test_a_dropped_block_is_handed_out_while_another_stream_uses_it(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(a, writes=x)
    p.join(b, a)
    use = p.launch(b, reads=x)
    p.drop(x)
    again = p.ops[OpId(len(p.ops) - 1)]
    p.owned(a)
    (problem,) = p.problems(sl401.RULE)
    assert (problem.primary, problem.earlier, problem.buffer) == (use, use, x)
    assert problem.later == OpId(len(p.ops) - 1)
    assert problem.notes[0].span == again.at.span
    assert not problem.doubts


def test_no_later_allocation_of_the_owner_is_no_problem(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.join(b, a)
    p.launch(b, reads=x)
    p.drop(x)
    p.owned(b)
    assert not p.problems(sl401.RULE)


@pytest.mark.parametrize("when", ["before the drop", "after the drop"])
def test_a_join_of_the_owner_before_it_allocates_again_is_enough(p: Memory, when: str) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    if when == "before the drop":
        p.join(a, b)
    p.drop(x)
    if when == "after the drop":
        p.join(a, b)
    p.owned(a)
    assert not p.problems(sl401.RULE)


def test_a_join_after_the_reuse_comes_too_late(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    p.drop(x)
    p.owned(a)
    p.join(a, b)
    assert len(p.problems(sl401.RULE)) == 1


def test_a_synchronized_host_allocates_safely(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    p.drop(x)
    p.sync_stream(b)
    p.owned(a)
    assert not p.problems(sl401.RULE)


@pytest.mark.parametrize(("recorded", "found"), [("user", 0), ("owner", 1), ("third", 1)])
def test_only_a_record_on_the_using_stream_keeps_the_block_back(p: Memory, recorded: str, found: int) -> None:
    streams = {"owner": p.stream(), "user": p.stream(), "third": p.stream()}
    x = p.owned(streams["owner"])
    p.launch(streams["user"], reads=x)
    p.keep(x, streams[recorded])
    p.drop(x)
    p.owned(streams["owner"])
    assert len(p.problems(sl401.RULE)) == found


def test_a_record_after_the_drop_was_not_the_last_reference(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    p.drop(x)
    p.owned(a)
    p.keep(x, b)
    assert not p.problems(sl401.RULE)


def test_a_record_on_what_may_be_the_same_stream_leaves_a_doubt(p: Memory) -> None:
    side, current, default = p.stream(), p.stream(StreamKind.CURRENT), p.stream(StreamKind.LEGACY)
    x = p.owned(side)
    p.launch(current, reads=x)
    p.keep(x, default)
    p.drop(x)
    p.owned(side)
    (problem,) = p.problems(sl401.RULE)
    assert Doubt.SAME_STREAM in problem.doubts


def test_each_using_stream_is_judged_by_its_last_use(p: Memory) -> None:
    a, b, c = p.stream(), p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    last = p.launch(b, reads=x)
    other = p.launch(c, reads=x)
    p.drop(x)
    p.owned(a)
    assert [problem.primary for problem in p.problems(sl401.RULE)] == [last, other]


def test_an_allocation_on_another_device_does_not_get_the_block(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    p.drop(x)
    y = p.owned(a)
    p.buffers[y] = replace(p.buffers[y], device="1")
    assert not p.problems(sl401.RULE)


def test_the_surest_of_several_allocations_is_shown(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    p.drop(x)
    guessed = p.owned(a)
    p.launch(a, writes=guessed, doubts=frozenset({Doubt.OPAQUE}))
    p.owned(a)
    sure = OpId(len(p.ops) - 1)
    (problem,) = p.problems(sl401.RULE)
    assert problem.later == sure
    assert not problem.doubts


def test_doubts_of_the_drop_are_kept(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    p.drop(x, frozenset({Doubt.ESCAPE}))
    p.owned(a)
    (problem,) = p.problems(sl401.RULE)
    assert problem.doubts == {Doubt.ESCAPE}


# ----------------------------------------------------------------------------- SL402


def test_a_free_on_a_stream_that_does_not_wait_for_the_user(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.join(b, a)
    use = p.launch(b, reads=x)
    free = p.free(x, a)
    (problem,) = p.problems(sl402.RULE)
    assert (problem.earlier, problem.later, problem.buffer) == (use, free, x)


@pytest.mark.parametrize("how", ["joined", "on the user", "synchronized"])
def test_a_free_that_comes_after_the_use(p: Memory, how: str) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.join(b, a)
    p.launch(b, reads=x)
    if how == "joined":
        p.join(a, b)
    elif how == "synchronized":
        p.sync_stream(b)
    p.free(x, b if how == "on the user" else a)
    assert not p.problems(sl402.RULE)


def test_a_free_without_a_stream_does_not_wait_for_pool_memory(p: Memory) -> None:
    a = p.stream()
    x = p.owned(a)
    p.launch(a, writes=x)
    p.free(x)
    assert len(p.problems(sl402.RULE)) == 1


def test_a_free_of_plain_memory_blocks_the_device(p: Memory) -> None:
    a = p.stream()
    x = p.buffer()
    p.launch(a, writes=x)
    p.free(x)
    assert not p.problems(sl402.RULE)


def test_a_barrier_leaves_a_doubt(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.launch(b, reads=x)
    p.barrier([a, b])
    p.free(x, a)
    (problem,) = p.problems(sl402.RULE)
    assert Doubt.ESCAPE in problem.doubts


# ----------------------------------------------------------------------------- SL405


def test_a_record_on_the_owner_has_no_effect(p: Memory) -> None:
    a = p.stream()
    x = p.owned(a)
    p.launch(a, writes=x)
    kept = p.keep(x, a)
    (problem,) = p.problems(sl405.RULE)
    assert (problem.later, problem.buffer) == (kept, x)
    assert not problem.doubts  # nothing is done with it here: others use what is recorded
    p.launch(a, reads=x)
    (problem,) = p.problems(sl405.RULE)
    assert problem.doubts == {Doubt.RESULT}  # who uses it on another stream is not seen
    p.launch(p.stream(), reads=x)
    (problem,) = p.problems(sl405.RULE)
    assert not problem.doubts


def test_a_buffer_that_is_recorded_on_its_user_too_is_safe(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x = p.owned(a)
    p.keep(x, a)
    p.keep(x, b)
    assert not p.problems(sl405.RULE)


def test_one_call_for_many_tensors_is_right_for_some(p: Memory) -> None:
    a, b = p.stream(), p.stream()
    x, y = p.owned(a), p.owned(b)
    at = Site(place(1))
    for tensor in (x, y):
        p.add(KeepAlive(at, buffer=tensor, stream=a))
    assert not p.problems(sl405.RULE)


def test_memory_of_the_current_stream_matters_only_if_another_stream_uses_it(p: Memory) -> None:
    current, side = p.stream(StreamKind.CURRENT), p.stream()
    x = p.owned(current)
    p.keep(x, current)
    assert not p.problems(sl405.RULE)
    p.launch(side, reads=x)
    assert len(p.problems(sl405.RULE)) == 1


def test_a_tensor_of_unknown_making_is_not_judged(p: Memory) -> None:
    a = p.stream()
    x = p.buffer()
    p.keep(x, a)
    assert not p.problems(sl405.RULE)


def test_what_an_unresolved_call_returned_may_belong_to_another_stream(p: Memory) -> None:
    a = p.stream()
    x = p.owned(a)
    opaque = frozenset({Doubt.OPAQUE})
    made = Access(x, Mode.WRITE)
    p.add(Launch(Site(place(9)), doubts=opaque, stream=a, accesses=(made,)))
    p.keep(x, a)
    (problem,) = p.problems(sl405.RULE)
    assert problem.doubts == {Doubt.GUESSED}
