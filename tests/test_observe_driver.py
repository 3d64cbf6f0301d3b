"""Driver calls as CUPTI shows them: decoded, recorded and judged. No GPU, and no CUPTI."""

from __future__ import annotations

import ctypes
import struct
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import pytest

from streamlint.confirm.inside.calls import Launch
from streamlint.confirm.inside.cupti import Call
from streamlint.confirm.observe import kernels
from streamlint.confirm.observe.aside import Aside
from streamlint.confirm.observe.driver_calls import WANTED, _layout, decoded
from streamlint.confirm.observe.driver_tracer import DriverTracer
from streamlint.confirm.observe.host_functions import HostFunctions
from streamlint.confirm.observe.kernels import _changed
from streamlint.confirm.observe.observer import Observer
from streamlint.confirm.observe.recorder import Recorder
from streamlint.trace import Space, StreamKind
from tests.fake_cuda import FakeDevice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE, TWO, EVENT = 0x1000, 0x2000, 0x3000
NON_BLOCKING = 1
A, B = 0x7F0000000000, 0x7F0000100000
SIZE = 4096


class DeviceOfBlocks(FakeDevice):
    def stream_kind(self, handle: int) -> Any:  # noqa: ANN401
        return self.kinds.get(handle)

    def memory(self, address: int) -> tuple[Space, int, int]:
        return Space.PAGEABLE, address, 0


class Memory:
    """The driver for what kernels are asked about: two parameters, pointers both."""

    def __init__(self) -> None:
        self.content = {A: bytes(SIZE), B: bytes(SIZE)}

    def parameter_sizes(self, _: int) -> list[int]:
        return [8, 8]

    def idle(self, _: int) -> bool:
        return True

    def new_stream(self) -> int:
        return 9

    def fetch(self, address: int, size: int, _: int) -> bytes:
        return self.content[address][:size]


class Process:
    """A program, as the sequence of its driver calls."""

    def __init__(self, folder: Path) -> None:
        self.observer = Observer(folder, device=DeviceOfBlocks())
        self.aside = Aside()
        self.tracer = DriverTracer(
            self.observer.recorder, self.observer._device, self.observer.functions, self.aside
        )

    def call(self, name: str, *arguments: int, result: int = 0, status: int = 0) -> None:
        layout = _layout(name.removesuffix("_v2").removesuffix("_ptsz"))
        assert layout is not None
        given, out = layout(), ctypes.c_uint64(result)
        values = list(arguments)
        for field, *_ in layout._fields_:
            setattr(given, field, ctypes.addressof(out) if field.startswith(">") else values.pop(0))
        self.made(name, given, status)

    def made(self, name: str, given: ctypes.Structure, status: int = 0, during: Any = None) -> None:  # noqa: ANN401
        code = ctypes.c_int(status)
        where = ctypes.addressof(given), ctypes.addressof(code)
        self.tracer.on_call(Call(name, True, *where, "kernel"))
        if during is not None:
            during()
        self.tracer.on_call(Call(name, False, *where, "kernel"))

    def start(self) -> None:
        for handle in (ONE, TWO):
            self.call("cuStreamCreate", NON_BLOCKING, result=handle)
        self.call("cuEventCreate", 0, result=EVENT)
        for block in (A, B):
            self.call("cuMemAlloc_v2", SIZE, result=block)

    def launch(
        self,
        first: int,
        second: int,
        stream: int,
        during: Any = None,  # noqa: ANN401
        *,
        grid: int = 1,
        idle: bool = True,
    ) -> None:
        if not idle:
            self.tracer._kernels._driver.idle = lambda _: False  # type: ignore[union-attr,method-assign]
        values = [ctypes.c_uint64(first), ctypes.c_uint64(second)]
        pointers = (ctypes.c_void_p * 2)(*[ctypes.addressof(value) for value in values])
        given = Launch(function=77, gx=grid, stream=stream, parameters=ctypes.addressof(pointers))
        self.made("cuLaunchKernel", given, during=during)

    def codes(self) -> list[tuple[str, str]]:
        return [(one.code, one.confidence.value) for one in self.observer.take().findings]


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


# ----------------------------------------------------------------------------- kernels


@pytest.fixture
def memory(process: Process, monkeypatch: pytest.MonkeyPatch) -> Memory:
    there = Memory()
    monkeypatch.setattr(kernels, "Driver", lambda: cast("Any", there))
    process.start()
    return there


def test_what_a_kernel_writes_is_learnt_at_its_first_launch(process: Process, memory: Memory) -> None:
    def writes() -> None:
        memory.content[B] = b"\x07" * SIZE

    process.launch(A, B, ONE, during=writes)
    process.launch(A, B, TWO)
    assert process.codes() == [("SL102", "certain")]


def test_a_kernel_that_does_not_end_by_itself_waits_for_a_value(
    process: Process, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``while tl.load(flag) != 1: pass``: what comes after it may come before what it does then."""
    monkeypatch.setattr(kernels, "_ENDS_S", 0.01)
    process.launch(A, B, ONE, during=lambda: setattr(memory, "idle", lambda _: False))
    process.call("cuMemsetD8Async", A, 7, SIZE, TWO)
    assert process.codes() == [("SL102", "possible")]
    process.observer.forget()
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.call("cuMemcpyDtoDAsync_v2", B, A, SIZE, TWO)
    assert process.codes() == [("SL101", "certain")]


def test_a_wait_behind_a_kernel_does_not_say_that_it_used_nothing(process: Process, memory: Memory) -> None:
    def writes() -> None:
        memory.content[B] = b"\x07" * SIZE

    process.launch(A, B, ONE, during=writes)
    process.call("cuStreamSynchronize", ONE)
    process.call("cuMemsetD8Async", A, 7, SIZE, TWO)
    process.launch(A, B, ONE)
    process.call("cuStreamSynchronize", TWO)
    assert process.codes() == [("SL101", "likely")]


def test_two_kernels_that_write_nothing_are_in_no_conflict(process: Process, memory: Memory) -> None:
    process.launch(A, B, ONE)
    process.launch(A, B, TWO)
    assert process.codes() == []


def test_parts_of_one_block_are_told_apart(process: Process, memory: Memory) -> None:
    """Two kernels write a half each, and read all of another block, or nothing of it."""
    half = SIZE // 2
    memory.content[B + half] = bytes(half)

    def writes(address: int) -> None:
        memory.content[address] = b"\x07" * half + memory.content[address][half:]

    process.launch(A, B, ONE, during=lambda: writes(B))
    process.launch(A, B + half, TWO, during=lambda: writes(B + half))
    assert process.codes() == []


def test_how_far_a_kernel_reads_is_not_known(process: Process, memory: Memory) -> None:
    """``add(x[:100], 1, out=y[:100])`` gives what is there already; then ``y[100:] = 3`` elsewhere."""
    half = SIZE // 2
    memory.content[B + half] = bytes(half)

    def writes() -> None:
        memory.content[B + half] = b"\x07" * half

    process.launch(A, B, ONE)
    process.launch(A, B + half, TWO, during=writes)
    assert process.codes() == [("SL102", "possible")]


def test_a_kernel_of_another_size_is_not_taken_to_write_as_much(process: Process, memory: Memory) -> None:
    def writes() -> None:
        memory.content[B] = b"\x07" * SIZE

    process.launch(A, B, ONE, during=writes)
    process.launch(A, B, TWO, grid=7, idle=False)
    assert process.codes() == [("SL101", "likely")]


def test_a_kernel_that_reads_what_a_memset_writes(process: Process, memory: Memory) -> None:
    process.call("cuMemsetD8Async", A, 7, SIZE, ONE)
    process.launch(A, B, TWO)
    assert process.codes() == [("SL101", "likely")]


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (b"aaaa", b"abba", (1, 3)),
        (b"aaaa", b"baaa", (0, 1)),
        (b"aaaa", b"aaab", (3, 4)),
        (bytes(10000), bytes(9000) + b"x" + bytes(999), (9000, 9001)),
        (bytes(10000), b"x" + bytes(9998) + b"x", (0, 10000)),
    ],
)
def test_which_bytes_changed(old: bytes, new: bytes, changed: tuple[int, int]) -> None:
    assert _changed(old, new) == changed


def test_threads_are_told_apart(process: Process) -> None:
    seen: list[bool] = []
    with process.aside.told(), process.aside.told():
        thread = threading.Thread(target=lambda: seen.append(threading.get_ident() in process.aside.depth))
        thread.start()
        thread.join()
    assert (seen, process.aside.depth) == ([False], {})


def test_a_kernel_reads_what_another_has_written(process: Process, memory: Memory) -> None:
    def writes(address: int) -> None:
        memory.content[address] = b"\x07" * SIZE

    process.launch(A, B, ONE, during=lambda: writes(B))
    process.launch(B, A, TWO, during=lambda: writes(A))
    assert ("SL101", "likely") in process.codes()


@pytest.mark.parametrize("number", ["<f", "<d"])
def test_what_a_kernel_may_read_is_overwritten(process: Process, memory: Memory, number: str) -> None:
    """``x.fill(5)`` where all was 1 changes the upper bytes of each number."""
    memory.content[A] = struct.pack(number, 1) * (SIZE // struct.calcsize(number))

    def writes() -> None:
        memory.content[A] = struct.pack(number, 5) * (SIZE // struct.calcsize(number))

    process.launch(A, B, ONE)
    process.launch(A, B, TWO, grid=7, during=writes)
    assert process.codes() == [("SL102", "likely")]


def test_streams_that_were_destroyed_are_not_asked(process: Process, memory: Memory) -> None:
    """The driver may crash over such a handle."""
    asked: list[int] = []

    def idle(handle: int) -> bool:
        asked.append(handle)
        return True

    memory.idle = idle  # type: ignore[assignment, method-assign]
    process.call("cuStreamDestroy_v2", ONE)
    process.launch(A, B, TWO)
    assert ONE not in asked
    process.call("cuStreamCreate", NON_BLOCKING, result=ONE)
    process.launch(A, B, TWO)
    assert ONE in asked


def test_what_is_written_where_arguments_share_memory_says_nothing_of_others(
    process: Process, memory: Memory
) -> None:
    """``cp.add(x, x, out=x)`` changes what is behind all of its pointers, ``cp.add(x, y, out=z)`` not."""

    def writes(address: int, value: bytes) -> None:
        memory.content[address] = value * SIZE

    process.launch(A, A, ONE, during=lambda: writes(A, b"\x07"))
    process.call("cuCtxSynchronize")
    process.launch(A, B, ONE, during=lambda: writes(B, b"\x08"))
    process.call("cuMemcpyDtoHAsync_v2", 0x1000, A, SIZE, TWO)
    assert process.codes() == []


def test_a_kernel_that_wrote_nothing_new_is_looked_at_again(process: Process, memory: Memory) -> None:
    """``copyto(y, x)`` three times where both are equal, and then where they are not."""

    def writes() -> None:
        memory.content[B] = b"\x07" * SIZE

    for _ in range(5):
        process.launch(A, B, ONE)
    process.launch(A, B, ONE, during=writes)
    process.launch(A, B, TWO, idle=False)
    assert process.codes() == [("SL102", "certain")]


def test_what_a_kernel_writes_elsewhere_it_writes_here(process: Process, memory: Memory) -> None:
    def writes() -> None:
        memory.content[B] = b"\x07" * SIZE

    process.launch(A, B, ONE, during=writes)
    process.launch(A, B, TWO, grid=7)
    assert process.codes() == [("SL101", "likely")]


def test_a_flag_may_decide_what_a_kernel_writes(process: Process, memory: Memory) -> None:
    """``exchange(a, b, 0)`` writes ``b``, and with another grid ``a``: then ``b`` is not written."""

    def writes(address: int) -> None:
        memory.content[address] = b"\x07" * SIZE

    process.launch(A, B, ONE, during=lambda: writes(B))
    process.call("cuCtxSynchronize")
    process.launch(A, B, ONE, grid=7, during=lambda: writes(A))
    process.call("cuMemcpyDtoHAsync_v2", 0x1000, B, SIZE, TWO)
    assert process.codes() == []
