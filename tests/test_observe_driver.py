"""Driver calls as CUPTI shows them: decoded, recorded and judged. No GPU, and no CUPTI."""

from __future__ import annotations

import ctypes
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import pytest

from streamlint.confirm.inside.cupti import Call
from streamlint.confirm.observe.driver_calls import WANTED, _layout, decoded
from streamlint.confirm.observe.host_functions import HostFunctions
from streamlint.confirm.observe.recorder import Recorder
from streamlint.trace import Space, StreamKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

from tests.observed_process import EVENT, ONE, SIZE, TWO, A, B, Process


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def test_a_copy_that_does_not_wait_for_the_memset(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == [("SL101", "certain")]


def test_with_an_event_between_them(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuEventRecord", EVENT, ONE)
    process.call("cuStreamWaitEvent", TWO, EVENT, 0)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == []


def test_the_host_waits_for_the_device(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.tracer.on_call(Call("cuCtxSynchronize", True, cast("Any", None), 0))
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == []


def test_order_behind_a_callback_may_be_made_by_the_host(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuLaunchHostFunc", ONE, 1, 0)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == [("SL101", "possible")]


def test_a_callback_says_nothing_of_what_comes_behind_it(process: Process) -> None:
    process.start()
    process.call("cuLaunchHostFunc", ONE, 1, 0)
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == [("SL101", "certain")]


def test_a_callback_tells_the_host_only_what_is_issued_after_it(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    process.call("cuLaunchHostFunc", ONE, 1, 0)
    assert process.codes() == [("SL101", "certain")]


def queued(process: Process, function: Callable[[], None], stream: int = ONE) -> Callable[[], None]:
    """Queue a host function of Python; returns what the driver will call."""
    late = process.observer.functions.late(function)
    process.call("cuLaunchHostFunc", stream, 1, 0)
    process.observer.functions.drop()

    def call() -> None:
        thread = threading.Thread(target=late)
        thread.start()
        thread.join()

    return call


def test_a_host_function_has_told_nothing_before_it_began(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    begin = queued(process, lambda: None)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    begin()
    assert process.codes() == [("SL101", "certain")]


def test_a_host_function_may_have_told_the_host_once_it_began(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    queued(process, lambda: None)()
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == [("SL101", "possible")]


@pytest.mark.parametrize(("waits", "found"), [(False, [("SL201", "certain")]), (True, [])])
def test_what_a_host_function_writes_comes_in_the_order_of_its_stream(
    process: Process, waits: bool, found: list[tuple[str, str]]
) -> None:
    process.start()
    page = (ctypes.c_ubyte * SIZE)()
    process.observer.recorder.born(ctypes.addressof(page), SIZE, Space.PINNED, "cpu")
    seen = process.observer.memory
    begin = queued(process, lambda: seen.element(page).__setitem__(slice(None), bytes(SIZE)))
    if waits:
        process.call("cuStreamSynchronize", ONE)
    assert seen.element(page)[0] == 0
    begin()
    assert process.codes() == found


def test_functions_begin_late_for_a_share_of_the_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    recorder = Recorder(lambda: None, lambda: (), lambda _: StreamKind.BLOCKING, lambda _: None)
    functions = HostFunctions(recorder)
    for _ in range(200):
        late = functions.late(lambda: None)
        functions.queue(recorder.callback(recorder.stream(ONE, "0"), "cuLaunchHostFunc"))
        late()
    assert 1 <= sum(slept) < 1.5


@pytest.mark.parametrize(("module", "found"), [("cupy._creation.from_data", "certain"), ("helpers", "")])
def test_what_a_library_asks_for_itself_orders_nothing(
    process: Process, monkeypatch: pytest.MonkeyPatch, module: str, found: str
) -> None:
    """``cp.asarray(host)`` asks for the page that it copies from; ``if event.done:`` asks for the program."""
    there = {**globals(), "__name__": module}
    made = FunctionType(Process.made.__code__, there, argdefs=Process.made.__defaults__)
    monkeypatch.setattr(Process, "made", made)
    process.observer.recorder.where = lambda: None  # not a statement that leaves the answer alone
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuEventRecord", EVENT, ONE)
    process.call("cuEventQuery", EVENT)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == ([("SL101", found)] if found else [])


def test_what_comes_behind_the_end_of_a_test_is_certain_again(process: Process) -> None:
    """A host function of one test says nothing about the next one, which begins when all is complete."""
    process.start()
    process.call("cuLaunchHostFunc", ONE, 1, 0)
    process.observer.take()
    process.observer.forget()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == [("SL101", "certain")]


def test_what_is_told_elsewhere_only_orders(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    with process.aside.told():
        process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
        process.call("cuEventRecord", EVENT, ONE)
        process.call("cuStreamWaitEvent", TWO, EVENT, 0)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == []
    assert not process.aside.depth


def test_an_event_of_a_library_may_get_the_handle_of_one_that_was_destroyed(process: Process) -> None:
    """NCCL makes its events within an operator of PyTorch, whose own calls are told of elsewhere."""
    process.start()
    process.call("cuMemsetD8Async", A, 0, SIZE, ONE)
    process.call("cuEventDestroy_v2", EVENT)
    with process.aside.told():
        process.call("cuEventCreate", 0, result=EVENT)
        process.call("cuEventRecord", EVENT, ONE)
        process.call("cuStreamWaitEvent", TWO, EVENT, 0)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == []


def test_an_event_that_nobody_told_of_is_not_used_after_it_was_destroyed(process: Process) -> None:
    """PyTorch tells that it forgets an event, and then destroys it; the handle comes again."""
    process.start()
    process.observer.recorder.forget_event(EVENT)
    process.call("cuEventDestroy_v2", EVENT)
    process.call("cuEventRecord", EVENT, ONE)
    assert process.codes() == []


def test_a_value_in_memory_may_order_all(process: Process) -> None:
    process.start()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuStreamWriteValue32_v2", ONE, B, 1, 0)
    with process.aside.told():  # an operator of PyTorch
        process.call("cuStreamWaitValue32_v2", TWO, B, 1, 0)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == []


def test_a_call_that_fails_makes_nothing(process: Process) -> None:
    process.call("cuMemAlloc_v2", SIZE, result=A, status=2)
    assert process.observer.recorder.find(A) is None


def test_default_streams_of_threads_are_not_the_legacy_one() -> None:
    layout = _layout("cuMemsetD8Async")
    assert layout is not None
    given = layout(dstDevice=A, uc=7, N=SIZE, hStream=0)
    for name, stream in (("cuMemsetD8Async", 0), ("cuMemsetD8Async_ptsz", 2)):
        made = decoded(Call(name, True, ctypes.addressof(given), 0))
        assert made is not None
        assert made.given["hStream"] == stream


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("cuMemcpyHtoDAsync_v2_ptsz", True),
        ("cuLaunchKernelEx", True),
        ("cuGraphInstantiateWithFlags", True),
        ("cuStreamBeginCapture_v2", True),
        ("cuStreamWaitValue32_v2", True),
        ("cuMemcpyBatchAsync", False),
        ("cuGetProcAddress", False),
    ],
)
def test_which_calls_are_seen(name: str, wanted: bool) -> None:
    assert (WANTED.match(name) is not None) == wanted


def test_threads_are_told_apart(process: Process) -> None:
    seen: list[bool] = []
    with process.aside.told(), process.aside.told():
        thread = threading.Thread(target=lambda: seen.append(threading.get_ident() in process.aside.depth))
        thread.start()
        thread.join()
    assert (seen, process.aside.depth) == ([False], {})
