"""Gates at driver calls: what a call queues, modules that are loaded before, and operations that commute."""

from __future__ import annotations

import ctypes
import mmap
import struct
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from streamlint.confirm.gpu import driver
from streamlint.confirm.gpu.driver import DriverUnavailableError
from streamlint.confirm.inside import calls, cupti, images, lookout, outcome
from streamlint.confirm.inside.cupti import Call, Cupti, CuptiUnavailableError
from streamlint.confirm.inside.order import Conflict, Memory, Operation, Range
from streamlint.confirm.inside.probe import Mode
from streamlint.confirm.inside.turns import Order
from streamlint.confirm.observe.kernels import Kernels
from streamlint.confirm.observe.observer import Observer
from streamlint.confirm.verdict import Decision, Verdict, by_order
from tests.fake_cuda import FakeDevice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PTX = b".version 6.0 mine"
FORBIDDEN = "this user may not see driver calls: the driver keeps that to administrators"


def call(name: str, arguments: ctypes.Structure, *, entering: bool = True, result: int = 0) -> Call:
    return Call(name, entering, ctypes.addressof(arguments), result)


def test_the_stream_of_a_call_is_found() -> None:
    launch = calls.Launch(1, 1, 1, 1, 1, 1, 1, 0, 0x5000)
    assert calls.queued(call("cuLaunchKernel", launch)).stream == 0x5000
    config = calls.LaunchConfig(1, 1, 1, 1, 1, 1, 0, 0x6000)
    assert calls.queued(call("cuLaunchKernelEx", calls.LaunchEx(ctypes.pointer(config)))).stream == 0x6000
    copy = calls.Copy(1, 2, 3, None)
    assert calls.queued(call("cuMemcpyHtoDAsync_v2", copy)).stream == 0
    assert calls.queued(call("cuMemcpyHtoDAsync_v2_ptsz", copy)).stream == 2
    assert calls.queued(call("cuMemcpyDtoH_v2", copy)).stream == 0
    assert calls.queued(call("cuMemcpyBatchAsync", copy)).stream is None


@pytest.mark.parametrize("name", ["cuLaunchKernel", "cuGraphLaunch_ptsz", "cuMemsetD8Async"])
def test_work_is_told_from_waits(name: str) -> None:
    assert calls.WORK.match(name)
    assert not calls.WAITS.match(name)


def test_an_image_ends_where_its_format_says() -> None:
    fatbin = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 8) + b"12345678"
    elf = bytearray(b"\x7fELF".ljust(64, b"\0"))
    struct.pack_into("<QQ", elf, 32, 64, 70)
    struct.pack_into("<HHHH", elf, 54, 2, 3, 5, 2)
    for image in (fatbin, bytes(elf) + b"x" * 16, PTX + b"\0"):
        kept = ctypes.create_string_buffer(image + b"behind")
        assert images.extent(ctypes.addressof(kept)) == (ctypes.addressof(kept), len(image))
    wrapper = ctypes.create_string_buffer(fatbin)
    header = ctypes.create_string_buffer(struct.pack("<IIQ", 0x466243B1, 1, ctypes.addressof(wrapper)))
    assert images.extent(ctypes.addressof(header)) == (ctypes.addressof(wrapper), len(fatbin))
    assert images.extent(ctypes.addressof(ctypes.create_string_buffer(b"????"))) is None


def test_a_module_that_is_loaded_already_is_handed_out_once(tmp_path: Path) -> None:
    text = ctypes.create_string_buffer(PTX)
    handle, answer = ctypes.c_void_p(), ctypes.c_int(200)
    arguments = images._Load(ctypes.pointer(handle), ctypes.addressof(text))
    images.keep(call("cuModuleLoadData", arguments), tmp_path, [(3, 0)])
    driver: Any = SimpleNamespace(
        load_image=lambda image, library: 77 if image.value == PTX and not library else 0
    )
    shelf = images.Shelf(driver, tmp_path, 3, 0)
    shelf.answer(call("cuModuleLoadData", arguments), 1)
    assert arguments.image != ctypes.addressof(text), "the call is to fail at once"
    shelf.answer(call("cuModuleLoadData", arguments, entering=False, result=ctypes.addressof(answer)), 1)
    assert (handle.value, answer.value) == (77, 0)
    arguments.image = ctypes.addressof(text)
    shelf.answer(call("cuModuleLoadData", arguments), 1)
    assert arguments.image == ctypes.addressof(text), "the next one loads it by itself"


def test_an_image_of_a_library_is_not_copied(tmp_path: Path) -> None:
    """``x @ w`` loads those of cuBLAS, from the file that is mapped."""
    fatbin = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 8) + b"12345678"
    library = tmp_path / "libof.so"
    library.write_bytes(bytes(8192) + fatbin + bytes(100))
    kept = tmp_path / "kept"
    kept.mkdir()
    with library.open("rb") as file:
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    mapped = (ctypes.c_char * len(fatbin)).from_buffer(view, 8192)
    handle = ctypes.c_void_p()
    arguments = images._Load(ctypes.pointer(handle), ctypes.addressof(mapped))
    images.keep(call("cuLibraryLoadData", arguments), kept, [(3, 0)])
    assert [path.name for path in kept.iterdir()] == ["3-0.txt"]
    loaded: list[bytes] = []

    def load(image: ctypes.Array[ctypes.c_char], *, library: bool) -> int:
        loaded.append(image.raw)
        return 77 if library else 0

    driver: Any = SimpleNamespace(load_image=load)
    shelf = images.Shelf(driver, kept, 3, 0)
    assert loaded == [fatbin]
    shelf.answer(call("cuLibraryLoadData", arguments), 1)
    assert arguments.image is None


class Bytes:
    """Memory, and operations on it that run at once."""

    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(b"\1\2\3\4", 4)
        self.range = Range(ctypes.addressof(self.memory), 4, on_host=True)
        self.runs = 0

    def operation(self, act: Callable[[], object]) -> Operation:
        def again(_stream: int) -> None:
            act()

        return Operation("act", frozenset({self.range}), again)

    def put(self, at: int, value: int) -> Operation:
        return self.operation(lambda: ctypes.memset(self.range.start + at, value, 1))

    def copy(self, to: int, at: int) -> Operation:
        return self.operation(lambda: ctypes.memmove(self.range.start + to, self.range.start + at, 1))

    def count(self) -> Operation:
        def act() -> None:
            ctypes.memset(self.range.start, self.memory.raw[0] + 1, 1)

        return self.operation(act)

    def noise(self) -> Operation:
        def act() -> None:
            self.runs += 1
            ctypes.memset(self.range.start + 3, self.runs, 1)

        return self.operation(act)

    def conflict(self, earlier: Operation, later: Operation) -> Conflict | None:
        driver: Any = SimpleNamespace(idle=lambda _stream: True)
        memory = Memory(driver, 0)
        memory.see(earlier)
        memory.see(later)
        return memory.conflict([earlier], [later])


def test_operations_whose_order_matters() -> None:
    used = Bytes()
    found = used.conflict(used.put(1, 9), used.copy(0, 1))
    assert found is not None
    assert (found.offset, found.in_order[:2], found.overtaken[:2]) == (0, "09", "02")


def test_operations_whose_order_does_not_matter() -> None:
    used = Bytes()
    assert used.conflict(used.put(0, 9), used.put(1, 8)) is None, "two halves"
    assert used.conflict(used.copy(2, 0), used.copy(3, 0)) is None, "both read"
    assert used.conflict(used.count(), used.count()) is None, "both count"
    assert used.conflict(used.put(1, 9), used.noise()) is None, "another value each time says nothing"
    assert used.conflict(used.put(1, 9), Bytes().put(1, 8)) is None, "other memory"


def test_the_verdict_by_order() -> None:
    before = Decision(Verdict.UNORDERED, "the value was right")
    assert by_order(before, None) is before
    after = by_order(before, Conflict("fill", "sum", 0, "07", "00"))
    assert (after.verdict, after.by) == (Verdict.CONFIRMED, "order")
    assert "`sum` was done while `fill` was held back" in after.reason


def test_cupti_that_is_not_to_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cupti.OFF, "0")
    with pytest.raises(CuptiUnavailableError, match="asks for no driver callbacks"):
        Cupti(calls.SEEN, lambda _call: None)


def test_cupti_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cupti.OFF, raising=False)
    monkeypatch.setattr(cupti, "_candidates", lambda: iter(["/none/libcupti.so"]))
    with pytest.raises(CuptiUnavailableError, match="no CUPTI library"):
        Cupti(calls.SEEN, lambda _call: None)


class Refusing:
    """A CUPTI that answers a call with an error: to the subscription, or to what it is about."""

    def __init__(self, call: str, code: int) -> None:
        self.closed = 0
        for name in ("cuptiSubscribe", "cuptiEnableCallback", "cuptiGetResultString"):
            setattr(self, name, self._answer(code if name == call else 0))

    def _answer(self, code: int) -> Any:  # noqa: ANN401
        def function(*_arguments: object) -> int:
            return code

        return function

    def cuptiGetCallbackName(self, _domain: int, number: int, name: Any) -> int:  # noqa: ANN401, N802
        name._obj.value = b"cuLaunchKernel"
        return int(number != 7)

    def cuptiUnsubscribe(self, _subscriber: object) -> int:  # noqa: N802
        self.closed += 1
        return 0


@pytest.mark.parametrize(
    ("call", "code", "sentence"),
    [
        ("cuptiSubscribe", 39, "a profiler or debugger uses CUPTI in this process already"),
        ("cuptiSubscribe", 15, "CUPTI does not get through to the CUDA driver, which may be too old for it"),
        ("cuptiSubscribe", 35, FORBIDDEN),
        (
            "cuptiEnableCallback",
            35,
            "this user may not see driver calls: the driver keeps that to administrators",
        ),
        ("cuptiSubscribe", 7, "CUPTI refuses: unknown error"),
    ],
)
def test_cupti_that_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, code: int, sentence: str
) -> None:
    """One sentence, and the old way: gates before statements, and what other tracers see."""
    library = Refusing(call, code)
    monkeypatch.delenv(cupti.OFF, raising=False)
    monkeypatch.setattr(cupti, "_load", lambda: library)
    with pytest.raises(CuptiUnavailableError) as refused:
        Cupti(calls.SEEN, lambda _call: None)
    assert str(refused.value) == sentence
    assert library.closed == (call != "cuptiSubscribe"), "no call may be told to what is gone"
    nothing: Any = None
    gates = outcome.look_out(lookout.Lookout, nothing, nothing, Order(Mode.GATED, frozenset({(0, 0)})), [])
    assert gates == (None, f"before statements: {sentence}")
    observer = Observer(tmp_path, device=FakeDevice())
    observer._subscribe()
    assert observer.take().blind == sentence


@pytest.mark.parametrize(
    ("code", "count", "sentence"),
    [
        (803, 1, "the CUDA driver found no usable GPU (cuInit returned 803)"),  # older than its libraries
        (304, 1, "the CUDA driver found no usable GPU (cuInit returned 304)"),  # no permission for the device
        (0, 0, "the CUDA driver found no GPU"),
    ],
)
def test_a_driver_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, code: int, count: int, sentence: str
) -> None:
    def count_devices(found: Any) -> int:  # noqa: ANN401
        found._obj.value = count
        return 0

    library = SimpleNamespace(cuInit=lambda _flags: code, cuDeviceGetCount=count_devices)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    with pytest.raises(DriverUnavailableError) as refused:
        driver.Driver()
    assert str(refused.value) == sentence


def test_a_driver_that_is_too_old_to_tell_the_parameters_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before CUDA 12.4: no launch can be made again, and none is looked at; nothing fails."""
    old = driver.Driver.__new__(driver.Driver)
    monkeypatch.setattr(old, "_cuda", SimpleNamespace(), raising=False)
    assert old.parameter_sizes(0x77) is None
    known = Kernels(lambda _address: None, list, lambda: None)
    monkeypatch.setattr(known, "_driver", old)
    assert known.launched(launched(0x5000), look=True) == ([], None)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> tuple[lookout.Lookout, list[int], list[str]]:
    held: list[int] = []
    opened: list[str] = []
    gate: Any = SimpleNamespace(hold=held.append, release=lambda: opened.append("open"))
    driver: Any = SimpleNamespace(is_capturing=lambda stream: stream == 0x7000, record=lambda stream: stream)
    monkeypatch.setattr(lookout, "Cupti", lambda *_arguments: SimpleNamespace(close=lambda: None))
    return lookout.Lookout(driver, gate, 0.05), held, opened


def launched(stream: int, *, entering: bool = True) -> Call:
    arguments = calls.Launch(1, 1, 1, 1, 1, 1, 1, 0, stream)
    one = call("cuLaunchKernel", arguments, entering=entering)
    _KEPT.append(arguments)
    return one


_KEPT: list[object] = []


def test_the_gate_goes_before_the_first_work_on_each_stream(
    seen: tuple[lookout.Lookout, list[int], list[str]],
) -> None:
    out, held, _ = seen
    out._on_call(launched(0x5000))
    assert held == [], "no statement of a finding runs"
    out.begin_earlier(records=False)
    for stream in (0x5000, 0x5000, 0x6000, 0x7000):
        out._on_call(launched(stream))
    with out.quiet():
        out._on_call(launched(0x8000))
    statement = out.end_earlier()
    assert held == [0x5000, 0x6000]
    assert statement is not None
    assert statement.unseen == 1, "captured work runs at another time"
    out.begin_later()
    out._on_call(launched(0x9000))
    out._on_call(launched(0x9000, entering=False))
    later = out.end_later()
    out.open()
    assert later is not None
    assert list[object](later.ends) == [0x9000]


def test_work_of_another_thread_of_python_is_not_held(
    seen: tuple[lookout.Lookout, list[int], list[str]],
) -> None:
    out, held, _ = seen
    out.begin_earlier(records=False)
    other = threading.Thread(target=lambda: out._on_call(launched(0x5000)))
    other.start()
    other.join()
    assert held == []


def test_a_call_that_waits_opens_the_gate(seen: tuple[lookout.Lookout, list[int], list[str]]) -> None:
    out, _, opened = seen
    out.begin_earlier(records=False)
    out._on_call(launched(0x5000))
    out._on_call(launched(0x5000, entering=False))
    time.sleep(0.15)
    assert opened == [], "nobody waits"
    out._on_call(call("cuCtxSynchronize", calls.Launch()))
    limit = time.monotonic() + 5
    while not opened and time.monotonic() < limit:
        time.sleep(0.01)
    assert (opened, out.opened_by) == (["open"], "cuCtxSynchronize")


def test_a_loop_of_queries_opens_the_gate(seen: tuple[lookout.Lookout, list[int], list[str]]) -> None:
    out, _, opened = seen
    out.begin_earlier(records=False)
    out._on_call(launched(0x5000))
    for _ in range(200):
        out._on_call(call("cuEventQuery", calls.Launch()))
    assert opened[:1] == ["open"]
