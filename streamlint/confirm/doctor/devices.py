"""Facts that need two GPUs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from streamlint.confirm.doctor.axiom import ORDERED, RETURNS, UNORDERED, WAITS, Axiom, Basis, Group
from streamlint.confirm.doctor.lab import LEGACY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.confirm.doctor.lab import Lab

_G = Basis.GUARANTEED


@contextmanager
def on(lab: Lab, device: int) -> Iterator[None]:
    lab.driver.activate(device)
    try:
        yield
    finally:
        lab.driver.activate()


def legacy_of_another_device(lab: Lab) -> str:
    busy = lab.blocking()
    with on(lab, 1):
        other = lab.device()
        lab.driver.synchronize()
    lab.hold(busy)
    with on(lab, 1):
        lab.fill(other, 0, LEGACY)
        seen = lab.overtakes(LEGACY)
    lab.let_go()
    return seen


def wait_across(lab: Lab) -> str:
    first = lab.non_blocking()
    with on(lab, 1):
        second, other = lab.non_blocking(), lab.device()
    lab.hold(first)
    event = lab.record(first)
    with on(lab, 1):
        lab.wait(second, event)
        lab.fill(other, 0, second)
        seen = lab.overtakes(second)
    lab.let_go()
    return seen


def synchronize_other_device(lab: Lab) -> str:
    busy = lab.non_blocking()
    with on(lab, 1):
        lab.device()  # the first use makes its context

    def call() -> None:
        with on(lab, 1):
            lab.synchronize()

    return lab.waits(call, busy)


def synchronize_stream_of_another_device(lab: Lab) -> str:
    busy = lab.non_blocking()
    with on(lab, 1):
        lab.device()

    def call() -> None:
        with on(lab, 1):
            lab.call("cuStreamSynchronize", busy)

    return lab.waits(call, busy)


def record_on_stream_of_another_device(lab: Lab) -> str:
    event = lab.event()
    with on(lab, 1):
        return f"error {lab.code('cuEventRecord', event, lab.non_blocking())}"


ACROSS_STREAMS: Final = Group(
    "Streams",
    (Axiom("the legacy stream of another device", UNORDERED, _G, legacy_of_another_device, devices=2),),
)
ACROSS_EVENTS: Final = Group(
    "Events",
    (
        Axiom("wait across devices", ORDERED, _G, wait_across, devices=2),
        Axiom(
            "record an event of one device on a stream of another",
            "error 400",
            _G,
            record_on_stream_of_another_device,
            devices=2,
        ),
    ),
)
ACROSS_HOST: Final = Group(
    "The host",
    (
        Axiom("device synchronize", RETURNS, _G, synchronize_other_device, "another device busy", devices=2),
        Axiom(
            "synchronize a stream of another device",
            WAITS,
            _G,
            synchronize_stream_of_another_device,
            devices=2,
        ),
    ),
)
