"""Memory that is given back goes to another owner, on a GPU that is a dictionary."""

from __future__ import annotations

import json
import sys
import types
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from streamlint.confirm.inside import child
from streamlint.confirm.inside.forks import Forks
from streamlint.confirm.inside.pinned import Pinned
from streamlint.confirm.inside.reuse import (
    CupyBlock,
    Past,
    PlainBlock,
    PoolBlock,
    block_of,
    hand_out,
)
from streamlint.confirm.inside.variables import Variables
from streamlint.confirm.plan.plans import Plan, places, witness_for
from streamlint.confirm.run.runner import confirm_all
from streamlint.confirm.run.server import Limits, Server
from streamlint.confirm.text.instrument import Place
from streamlint.confirm.verdict import Decision, Verdict
from streamlint.run.engine import Settings, analyze
from streamlint.witness import ByReuse, ByValue
from tests.confirm_support import Device, library
from tests.expectations import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamlint.confirm.gpu.driver import Driver

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

POISON = 0xA5


class Memory(Device):
    """Equal blocks get the addresses that were freed last. Even addresses belong to a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.content: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.free_blocks: list[tuple[int, int]] = []

    def new(self, size: int, *, pooled: bool = False) -> int:
        fitting = [block for block in self.free_blocks if block[1] == size and block[0] % 2 != pooled]
        if fitting:
            self.free_blocks.remove(fitting[-1])
            address = fitting[-1][0]
        else:
            address = (1 << 20) + 2 * len(self.sizes) + (0 if pooled else 1)
        self.sizes[address] = size
        self.content.setdefault(address, 0)
        return address

    def free(self, address: int) -> None:
        self.free_blocks.append((address, self.sizes[address]))

    def rest_of_range(self, address: int) -> int:
        used = address not in [freed for freed, _ in self.free_blocks]
        return self.sizes.get(address, 0) if used else 0

    def is_pooled(self, address: int) -> bool:
        return address % 2 == 0

    def allocated(self, size: int) -> int:
        return self.new(size)

    def fill(self, address: int, size: int, value: int) -> None:
        assert self.sizes[address] == size
        self.content[address] = value

    def new_stream(self) -> int:
        return 9

    def overwritten(self, size: int, stream: int, value: int) -> int:
        del stream
        address = self.new(size, pooled=True)
        self.content[address] = value
        return address


PROGRAM = """\
import fakegpu


def copying(target, source):
    return lambda: fakegpu.put(target, fakegpu.at(source))


def freed_bad():
    source, target = fakegpu.new(3), fakegpu.new(0)
    launch = copying(target, source)
    fakegpu.free(source)
    launch()
    return fakegpu.at(target)


def freed_ok():
    source, target = fakegpu.new(3), fakegpu.new(0)
    launch = copying(target, source)
    launch()
    fakegpu.free(source)
    return fakegpu.at(target)


def reused_by_itself_bad():
    source, target = fakegpu.new(3), fakegpu.new(0)
    launch = copying(target, source)
    fakegpu.free(source)
    other = fakegpu.new(9)
    launch()
    return fakegpu.at(target)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, "utf-8")
    memory = Memory()
    gpu = library(memory, lambda: 0)

    def new(value: int) -> int:
        address = memory.new(64)
        memory.content[address] = value
        return address

    gpu.__dict__.update(new=new, at=memory.content.__getitem__, put=memory.content.__setitem__)
    gpu.__dict__["free"] = memory.free
    monkeypatch.setitem(sys.modules, "fakegpu", gpu)
    monkeypatch.setattr(child, "Driver", lambda: memory)
    forks = Forks()
    monkeypatch.setattr(Server, "_ask", lambda _self, line: json.dumps(forks.answer(json.loads(line))))
    return path


def stale(program: Path, function: str, *, freed: str, used: str) -> Decision:
    lines = program.read_text("utf-8").splitlines()
    start = lines.index(f"def {function}():")
    earlier, later = (next(n for n in range(start, len(lines)) if t in lines[n]) + 1 for t in (freed, used))
    witness = ByReuse(stale=True)
    plan = Plan(program, program.parent, function, Place(earlier), Place(later), witness=witness)
    (done,) = confirm_all([plan], Limits(delay_ms=10, timeout_s=5))
    return done.decision


def test_a_use_of_freed_memory_meets_another_owner(program: Path) -> None:
    found = stale(program, "freed_bad", freed="fakegpu.free", used="launch()")
    assert found.verdict is Verdict.CONFIRMED
    assert found.difference is not None
    assert (found.difference.reference, found.difference.gated) == ("3", str(POISON))


def test_memory_freed_after_its_use_does_not(program: Path) -> None:
    assert stale(program, "freed_ok", freed="fakegpu.free", used="launch()").verdict is Verdict.ORDERED


def test_a_program_that_reuses_the_memory_itself_is_compared_with_one_that_keeps_it(program: Path) -> None:
    found = stale(program, "reused_by_itself_bad", freed="fakegpu.free", used="launch()")
    assert found.difference is not None
    assert (found.verdict, found.difference.reference) == (Verdict.CONFIRMED, "3")


def test_a_statement_that_frees_nothing_gets_its_own_memory(program: Path) -> None:
    # As where the earlier statement drops an array of which the text tells nothing.
    found = stale(program, "freed_ok", freed="launch = copying", used="fakegpu.at")
    assert found.verdict is Verdict.ORDERED


# ----------------------------------------------------------------------------- blocks and arrays


def test_a_pointer_stands_for_a_block_of_its_kind() -> None:
    memory = Memory()
    plain, pooled, other = memory.new(64), memory.new(32, pooled=True), memory.new(32, pooled=True)
    driver = cast("Driver", memory)
    assert block_of(plain, driver) == PlainBlock(plain, 64)
    assert block_of(pooled, driver) == PoolBlock(pooled, 32)
    memory.free(pooled)
    assert block_of(pooled, driver) is None
    # The pool has another free block of the size, which it hands out first.
    memory.free(other)
    hand_out(PoolBlock(pooled, 32), driver, [4])
    assert memory.content[pooled] == POISON


class Array:
    """As an array of CuPy: an object that owns memory of a pool."""

    def __init__(self, memory: Memory, size: int) -> None:
        address = memory.new(size)

        def memset_async(value: int, size: int, stream: object) -> None:
            assert stream is not None
            memory.fill(address, size, value)

        own = types.SimpleNamespace(ptr=address, size=size)
        self.data = types.SimpleNamespace(ptr=address, mem=own, memset_async=memset_async)
        weakref.finalize(self, memory.free, address)


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> Memory:
    memory = Memory()

    @contextmanager
    def stream(handle: int) -> Iterator[int]:
        yield handle

    def current() -> Any:  # noqa: ANN401
        return types.SimpleNamespace(ptr=5)

    def empty(size: int, dtype: str) -> Array:
        assert dtype == "uint8"
        return Array(memory, size)

    cuda = types.SimpleNamespace(get_current_stream=current, ExternalStream=stream)
    cupy = types.SimpleNamespace(ndarray=Array, cuda=cuda, uint8="uint8", empty=empty)
    monkeypatch.setitem(sys.modules, "cupy", cast("types.ModuleType", cupy))
    return memory


def test_arrays_that_nothing_refers_to_are_overwritten_and_others_are_not(arrays: Memory) -> None:
    past = Past(cast("Driver", arrays), keeps=False)
    kept, dropped = Array(arrays, 64), Array(arrays, 64)
    past.see((kept, dropped))
    assert block_of(kept, None) == CupyBlock(kept.data.ptr, 64, 5)
    address = dropped.data.ptr
    del dropped
    past.hand_out()
    assert (arrays.content[address], arrays.content[kept.data.ptr]) == (POISON, 0)


def test_other_free_blocks_of_the_size_do_not_stand_in_for_the_one_that_was_dropped(arrays: Memory) -> None:
    past = Past(cast("Driver", arrays), keeps=False)
    dropped, more = Array(arrays, 64), [Array(arrays, 64) for _ in range(3)]
    past.see(dropped)
    address = dropped.data.ptr
    del dropped
    more.clear()
    past.hand_out()
    assert arrays.content[address] == POISON


def test_the_serialized_run_keeps_what_it_saw(arrays: Memory) -> None:
    past = Past(cast("Driver", arrays), keeps=True)
    array = Array(arrays, 64)
    address = array.data.ptr
    past.see(array)
    del array
    past.hand_out()
    assert Array(arrays, 64).data.ptr != address


# ----------------------------------------------------------------------------- which findings


@pytest.mark.parametrize(
    ("file", "function", "witness"),
    [
        ("torch", "dropped_bad", ByReuse(stale=True)),
        ("torch", "rebound_bad", ByReuse(stale=True)),
        ("cupy", "dropped_bad", ByReuse(stale=True)),
        ("cuda_runtime", "freed_bad", ByReuse(stale=True)),
        ("cuda_runtime", "freed_in_order_bad", ByReuse()),
        ("cuda_core", "closed_bad", ByReuse()),
        ("torch", "refill_bad", ByValue()),
    ],
)
def test_freed_memory_of_graphs_is_handed_out_again(
    file: str, function: str, witness: ByReuse | ByValue
) -> None:
    path = FIXTURES / file / "sl504_graph_buffer_race.py"
    (found,) = [one for one in analyze(path.parent, [path], Settings()).findings if function in one.function]
    assert witness_for(found) == witness
    earlier, later = places(found, witness)
    assert earlier is not None
    assert earlier != later


# ----------------------------------------------------------------------------- variables of a module


class UnownedMemory:
    def __init__(self, size: int = 0) -> None:
        self.size = size


class MemoryPointer:
    def __init__(self, address: int, mem: object) -> None:
        self.ptr, self.mem = address, mem


def test_a_variable_of_a_module_gets_its_first_contents_again() -> None:
    memory = Memory()
    variable, array = memory.new(8), memory.new(16)
    written: list[tuple[int, bytes]] = []
    memory.__dict__.update(
        peek=lambda address, size: bytes([memory.content[address]] * size),
        poke=lambda address, content: written.append((address, content)),
    )
    variables = Variables(cast("Driver", memory))
    variables.see(MemoryPointer(variable, UnownedMemory()))
    variables.see(MemoryPointer(array, object()))
    # That of another library, which is gone when the variables are restored.
    variables.see(MemoryPointer(memory.new(4), UnownedMemory(4)))
    memory.content[variable] = 7
    variables.see(MemoryPointer(variable, UnownedMemory()))
    variables.restore()
    assert written == [(variable, bytes(8))]


# ----------------------------------------------------------------------------- small pinned buffers


def test_small_pinned_buffers_are_overwritten_in_their_sizes() -> None:
    sizes = {256: 64, 512: 64, 1024: 32, 2048: 1 << 23}
    overwritten: list[tuple[int, int, int]] = []
    driver = types.SimpleNamespace(
        pinned_size=lambda address: sizes.get(address, 0),
        overwrite_pinned=lambda *arguments: overwritten.append(arguments),
    )
    pinned = Pinned(cast("Driver", driver))
    for address in (256, 512, 1024, 2048, 4096):
        pinned.see(PinnedMemoryPointer(address))
    pinned.see(7)
    pinned.overwrite(POISON)
    assert overwritten == [(64, 4, POISON), (32, 3, POISON)]


class PinnedMemoryPointer:
    def __init__(self, address: int) -> None:
        self.ptr = address


def test_cached_memory_is_overwritten_on_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[tuple[int, int]] = []

    class Filling(Device):
        @contextmanager
        def on(self, device: int) -> Iterator[None]:
            self.device = device
            yield

        def fill(self, address: int, size: int, value: int) -> None:
            del size, value
            filled.append((self.device, address))

    free, used = {"size": 8, "state": "inactive"}, {"size": 8, "state": "active_allocated"}
    cached = {"address": 64, "device": 0, "blocks": [free]}
    there = {"address": 96, "device": 3, "blocks": [used, free]}
    of_graph = {**cached, "segment_pool_id": (0, 1)}
    cuda = types.SimpleNamespace(
        is_initialized=lambda: True,
        empty_cache=lambda: None,
        memory_snapshot=lambda: [cached, there, of_graph],
    )
    torch = types.SimpleNamespace(
        cuda=cuda, _C=types.SimpleNamespace(), device=lambda *where: where, empty=lambda *_, **__: None
    )
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setitem(sys.modules, "torch", cast("Any", torch))
    filling = cast("Any", Filling())
    child._forget(filling, Pinned(filling))
    assert filled == [(0, 64), (3, 104)]


def test_memory_of_each_device_is_given_back_in_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class TwoDevices(Device):
        def ensure_context(self) -> None:
            done.append("context")

        def active_devices(self) -> list[int]:
            return [0, 2]

    @contextmanager
    def current(device: int) -> Iterator[None]:
        done.append(f"device {device}")
        yield

    def pool(name: str) -> Any:  # noqa: ANN401
        return types.SimpleNamespace(free_all_blocks=lambda: done.append(name))

    cupy = types.SimpleNamespace(
        get_default_memory_pool=lambda: pool("memory"),
        get_default_pinned_memory_pool=lambda: pool("pinned"),
        cuda=types.SimpleNamespace(Device=current),
    )
    monkeypatch.setitem(sys.modules, "cupy", cast("Any", cupy))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    device = cast("Any", TwoDevices())
    child._forget(device, Pinned(device))
    assert done == ["context", "pinned", "device 0", "memory", "device 2", "memory"]
