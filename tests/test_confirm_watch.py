"""The probes of a whole program, one by one, with a fake GPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from streamlint.confirm.gpu import handles
from streamlint.confirm.inside import hold as hold_module
from streamlint.confirm.inside import turns, warm, watch
from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.probe import Mode
from streamlint.confirm.text.instrument import Place
from streamlint.confirm.text.weave import Role, Site
from tests.confirm_support import Array, Device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_pytorch_is_warmed_up_once_and_not_before_the_program_uses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[bool] = [False]
    warmed: list[object] = []
    cuda = SimpleNamespace(is_initialized=lambda: begun[0], is_current_stream_capturing=lambda: False)
    cuda.current_stream = lambda: SimpleNamespace(cuda_stream=0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, Tensor=Array))
    monkeypatch.setattr(warm, "warm", warmed.append)
    device = cast("Any", Device())
    site = Site(0, Role.EARLIER, "f.py", Place(1))
    probes = watch.Watch(
        [site], turns.Order(Mode.GATED, frozenset({(0, 0)})), lambda _event: None, lambda: device
    )
    probes.enter((0,))
    assert warmed == []
    begun[0] = True
    probes.enter((0,))
    probes.enter((0,))
    assert len(warmed) == 1


@pytest.mark.parametrize("hold", [Hold.CURRENT, Hold.CUPY, Hold.ELSEWHERE])
@pytest.mark.parametrize(
    "probe",
    [
        lambda probes: probes.hold_current((0,)),
        lambda probes: probes.hold_among((0,), 1),
        lambda probes: probes.on((0,), None),
        lambda probes: probes.on_launch((0,), ()),
    ],
)
def test_nothing_looks_up_a_stream_in_a_callback(
    monkeypatch: pytest.MonkeyPatch, probe: Callable[[watch.Watch], object], hold: Hold
) -> None:
    looked_up: list[int] = []

    def current_streams() -> list[int]:
        looked_up.append(0)
        return [0]

    class TwoDevices(Device):
        def elsewhere(self) -> Iterator[int]:
            looked_up.append(2)
            yield from super().elsewhere()

    monkeypatch.setattr(handles, "current_streams", current_streams)
    monkeypatch.setattr(hold_module, "streams_by_library", lambda: {"cupy": current_streams()[0]})
    device = cast("Any", TwoDevices())
    site = Site(0, Role.EARLIER, "f.py", Place(1))
    order = turns.Order(Mode.GATED, frozenset({(0, 0)}), hold=hold)
    broken: list[dict[str, Any]] = []
    probes = watch.Watch([site], order, broken.append, lambda: device)
    probes.enter((0,))
    device.call_back(lambda: probe(probes))
    device.called_back[0].wait()
    assert looked_up == []
    probe(probes)
    assert looked_up
    assert not [event for event in broken if event["event"] == "broken"]


def test_a_number_among_the_arguments_of_a_launch_is_no_stream() -> None:
    asked: list[int] = []

    class Strict(Device):
        def context_of(self, stream: int) -> Any:  # noqa: ANN401
            asked.append(stream)
            return super().context_of(stream)

    device = cast("Any", Strict())
    site = Site(0, Role.EARLIER, "f.py", Place(1))
    probes = watch.Watch(
        [site], turns.Order(Mode.GATED, frozenset({(0, 0)})), lambda _event: None, lambda: device
    )
    probes.enter((0,))
    asked.clear()
    # self.launch(address, size, side): the driver crashes if it is asked about memory as about a stream.
    arguments = (0x7F0000000000, 1 << 20, SideStream())
    assert probes.on_arguments((0,), arguments) is arguments
    assert asked == [5]


class SideStream:
    handle = 5
