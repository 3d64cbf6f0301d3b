"""On which stream a collective of PyTorch touches its tensors; PyTorch's own process group is not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from streamlint.confirm.observe.events import Touch
from streamlint.confirm.observe.torch_ops import Operator, Special
from streamlint.trace import Mode
from tests.observed_run import DEFAULT, SIDE, Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlint.confirm.observe.events import Touched

GROUP = SIDE
REDUCE = Operator("allreduce_", ((0, Mode.UPDATE),), (), True, Special.COLLECTIVE, flag=1)
BEGUN, DONE = 1, 2


class Group:
    """A process group with a stream of its own, as PyTorch tells of it."""

    def __init__(self, run: Run) -> None:
        torch = pytest.importorskip("torch")
        from streamlint.confirm.observe.torch_collectives import Collectives

        self.run = run
        run.recorder.pool_stream(GROUP, "0", run.kind)
        self.tensor = torch.ones(1)
        self.block = run.block(0x1000)
        self.collectives = Collectives(run.recorder, self._touch, lambda _: run.stream(DEFAULT))

    def _touch(self, _tensor: Any, mode: Mode, operand: int, touches: list[Touched]) -> None:  # noqa: ANN401
        touches.append(Touch(self.block, mode, 0, 64, operand=operand))

    def reduce(self, *, aside: bool) -> None:
        def call(*_: object) -> tuple[list[Any], object]:
            if aside:
                self.run.record(BEGUN, DEFAULT)
                self._wait(GROUP, BEGUN)
                self.run.record(DONE, GROUP)
                recorder = self.run.recorder
                self.collectives.recorded(recorder.event(DONE, "0"), self.run.stream(GROUP))
            return [self.tensor], object()

        # A tensor of the host has no device: which one it is does not matter here.
        call_on = type("Tensor", (type(self.tensor),), {"get_device": lambda _: 0})
        self.collectives.run(REDUCE, call, ([self.tensor.as_subclass(call_on)], aside), {})

    def _wait(self, handle: int, event: int) -> None:
        self.run.wait(handle, event)
        self.collectives.waited(self.run.stream(handle))

    def wait(self) -> None:
        self._wait(DEFAULT, DONE)


def started(group: Group, *, then: Callable[[], None]) -> list[str]:
    group.run.work(DEFAULT, (group.block, Mode.WRITE))
    then()
    group.run.work(DEFAULT, (group.block, Mode.READ))
    return group.run.codes()


@pytest.mark.parametrize(("waits", "found"), [(False, ["SL602"]), (True, [])])
def test_a_result_is_there_behind_the_wait(tmp_path: Path, waits: bool, found: list[str]) -> None:
    group = Group(Run(tmp_path))

    def then() -> None:
        group.reduce(aside=True)
        if waits:
            group.wait()

    assert started(group, then=then) == found


def test_without_a_stream_of_its_own_it_is_work_of_the_current_one(tmp_path: Path) -> None:
    group = Group(Run(tmp_path))
    assert started(group, then=lambda: group.reduce(aside=False)) == []
