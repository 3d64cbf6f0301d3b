"""Facts that need two GPUs."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from streamlint.confirm.doctor.axiom import (
    ORDERED,
    RETURNS,
    UNORDERED,
    WAITS,
    Axiom,
    Basis,
    Group,
)
from streamlint.confirm.doctor.lab import LEGACY
from streamlint.confirm.doctor.refused import answer
from streamlint.confirm.gpu import gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.confirm.doctor.axiom import Measure
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


def from_another_device(call: Callable[[Lab, int], object]) -> Measure:
    """Whether a call that is made on one device waits for a stream of another."""

    def measure(lab: Lab) -> str:
        busy = lab.non_blocking()
        with on(lab, 1):
            lab.device()  # the first use makes its context

        def made() -> None:
            with on(lab, 1):
                call(lab, busy)

        return lab.waits(made, busy)

    return measure


def launch_on_stream_of_another_device(lab: Lab) -> str:
    stream = lab.non_blocking()
    with on(lab, 1):
        kernel = gate.load(lab.driver)
        # Where it is launched after all: it ends at once.
        flag, limit = ctypes.c_uint64(lab.device()), ctypes.c_uint64(0)
        pointers = (ctypes.c_void_p * 2)(ctypes.addressof(flag), ctypes.addressof(limit))
        handle = ctypes.c_void_p(stream)
        return answer(lab.code("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, handle, pointers, None))


def copy_on_stream_of_another_device(lab: Lab) -> str:
    stream, data, host = lab.non_blocking(), lab.device(), lab.pinned()
    with on(lab, 1):
        return answer(lab.code("cuMemcpyAsync", host, data, 16, stream))


def record_on_stream_of_another_device(lab: Lab) -> str:
    event = lab.event()
    with on(lab, 1):
        return answer(lab.code("cuEventRecord", event, lab.non_blocking()))


_LAUNCH = "a kernel launch on a stream of another device than the current one"

DEVICES: Final = Group(
    "Devices",
    (
        Axiom(_LAUNCH, "error 400", _G, launch_on_stream_of_another_device, "a kernel", devices=2),
        Axiom(_LAUNCH, "success", _G, copy_on_stream_of_another_device, "a copy", devices=2),
        Axiom(
            "an event made on one device, recorded on a stream of another",
            "error 400",
            _G,
            record_on_stream_of_another_device,
            devices=2,
        ),
        Axiom("a wait for an event of another device", ORDERED, _G, wait_across, devices=2),
        Axiom("the legacy stream of another device", UNORDERED, _G, legacy_of_another_device, devices=2),
        Axiom(
            "device synchronize, work on another device",
            RETURNS,
            _G,
            from_another_device(lambda lab, _: lab.synchronize()),
            devices=2,
        ),
        Axiom(
            "synchronize a stream of another device",
            WAITS,
            _G,
            from_another_device(lambda lab, busy: lab.call("cuStreamSynchronize", busy)),
            devices=2,
        ),
    ),
)
