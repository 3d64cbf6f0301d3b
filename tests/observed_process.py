"""A program as the sequence of its driver calls, which CUPTI shows: for tests without a GPU."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from streamlint.confirm.inside.calls import Launch
from streamlint.confirm.inside.cupti import Call
from streamlint.confirm.observe.aside import Aside
from streamlint.confirm.observe.driver_calls import _layout
from streamlint.confirm.observe.driver_tracer import DriverTracer
from streamlint.confirm.observe.observer import Observer
from streamlint.trace import Space
from tests.fake_cuda import FakeDevice

if TYPE_CHECKING:
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
