"""What kernels write is learnt at their first launches. No GPU, and no CUPTI."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

import pytest

from streamlint.confirm.observe import kernels
from streamlint.confirm.observe.kernels import _changed

if TYPE_CHECKING:
    from pathlib import Path

from tests.observed_process import NON_BLOCKING, ONE, SIZE, TWO, A, B, Memory, Process


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


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
