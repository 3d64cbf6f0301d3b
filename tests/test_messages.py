"""What a finding says: in the words of the place, and of the library that the code uses."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.finding import Finding


def findings(tmp_path: Path, code: str) -> list[Finding]:
    return [one for one in all_findings(tmp_path, code) if one.confidence is not Confidence.POSSIBLE]


def all_findings(tmp_path: Path, code: str) -> tuple[Finding, ...]:
    file = tmp_path / "run.py"
    file.write_text(textwrap.dedent(code), encoding="utf-8")
    return engine.analyze(tmp_path, [file], engine.Settings(evidence=False)).findings


CUPY = """
    import cupy as cp

    class Stage:
        def __init__(self):
            self.lane = cp.cuda.Stream(non_blocking=True)
            self.other = cp.cuda.Stream(non_blocking=True)

        def run(self):
            with self.lane:
                x = cp.ones(1 << 20)
            with self.other:
                y = x * 2
            self.other.synchronize()
            return y
"""
CORE = """
    from cuda.core import Device, Buffer
    import torch

    def main():
        device = Device()
        device.set_current()
        first, second = device.create_stream(), device.create_stream()
        source = device.memory_resource.allocate(64, stream=first)
        host = device.memory_resource.allocate(64, stream=first)
        first.sync()
        source.copy_to(host, stream=first)
        host.copy_to(source, stream=second)
        device.sync()
"""
NUMBA = """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def twice(x):
        x[cuda.grid(1)] *= 2

    def main():
        first, second = cuda.stream(), cuda.stream()
        x = cuda.to_device(np.ones(64), stream=first)
        twice[1, 64, second](x)
        cuda.synchronize()
"""


@pytest.mark.parametrize(
    ("code", "statement"),
    [
        (CUPY, "CuPy: `self.other.wait_event(self.lane.record())`"),
        (CORE, "cuda-python: `second.wait(first)`"),
        (NUMBA, None),
    ],
    ids=["CuPy", "cuda.core", "Numba, which takes more than one call"],
)
def test_help_is_in_the_words_of_the_library(tmp_path: Path, code: str, statement: str | None) -> None:
    one = findings(tmp_path, code)[0]
    assert "wait for it before" in one.help
    assert one.statement == (statement or "")


def test_what_a_call_does_aside_cannot_be_made_to_wait(tmp_path: Path) -> None:
    (one,) = findings(
        tmp_path,
        """
        import cupy as cp
        from mpi4py import MPI

        def main():
            edge = cp.ones(64)
            edge *= 2
            MPI.COMM_WORLD.Send(edge, dest=1)
        """,
    )
    assert one.message == "`edge` is read by `Send` while the current stream may still be writing it"
    assert one.help.startswith("make the host wait for the `*=` before the `Send`: synchronize the current")


HELD = """
    import torch

    class Ring:
        def __init__(self):
            self.side = torch.cuda.Stream()

        def step(self, x):
            self.side.wait_stream(torch.cuda.current_stream())
            y = x.to("cuda:0") * 2
            with torch.cuda.stream(self.side):
                z = y + 1
            del y
            w = torch.zeros(1 << 20, device="cuda")
            torch.cuda.current_stream().wait_stream(self.side)
            return z, w

    def main():
        ring = Ring()
        return ring.step(torch.ones(1 << 20, device="cuda"))
"""


def test_memory_is_kept_by_a_statement_that_can_be_pasted(tmp_path: Path) -> None:
    kept = [one.advice for one in findings(tmp_path, HELD) if one.code == "SL401"]
    assert [one.partition("; ")[2] for one in kept] == [
        "for example `y.record_stream(self.side)` before line 13"
    ]


def test_a_statement_has_names_of_one_place_only(tmp_path: Path) -> None:
    """``work`` has no name for the stream that its caller has chosen: no line of it could make that wait."""
    (one,) = findings(
        tmp_path,
        """
        import torch

        def work(x):
            return x * 2

        def main():
            side = torch.cuda.Stream()
            x = torch.ones(1 << 20, device="cuda")
            with torch.cuda.stream(side):
                y = work(x)
            torch.cuda.synchronize()
            return y
        """,
    )
    assert one.message == "`x` is read on `side` while the current stream may still be writing it"
    assert one.advice.endswith("; for example `side.wait_stream(torch.cuda.current_stream())` before line 10")


def test_a_collective_waits_for_the_stream_that_is_current_at_its_call(tmp_path: Path) -> None:
    one = next(
        one
        for one in findings(
            tmp_path,
            """
            import torch
            import torch.distributed as dist

            def main():
                side = torch.cuda.Stream()
                x = torch.ones(1 << 20, device="cuda")
                x.fill_(2.0)
                with torch.cuda.stream(side):
                    work = dist.all_reduce(x, async_op=True)
                work.wait()
                torch.cuda.synchronize()
                return x
            """,
        )
        if one.code == "SL101"
    )
    assert one.help == (
        "call `all_reduce` on a stream that has waited for the current stream: "
        "it waits for the one that is current then"
    )


def test_what_a_constructor_is_given_is_pending_at_the_constructor(tmp_path: Path) -> None:
    code = """
        import torch

        class Packed:
            def __init__(self, x: torch.Tensor, side=None):
                self.side = side
                self.done = torch.cuda.Event()
                self.host = torch.empty(x.shape, pin_memory=True)
                with torch.cuda.stream(self.side):
                    packed = (x * 255).round()
                    self.host.copy_(packed, non_blocking=True)
                    self.done.record()

            def rows(self):
                self.done.synchronize()
                return self.host.tolist()

            def first(self):
                self.done.synchronize()
                return self.host[0].item()
        """
    places = {place.span.line for one in all_findings(tmp_path, code) if one.at_call for place in one.related}
    assert places == {5}


def test_the_body_of_a_loop_is_not_reached_through_the_generator_that_it_walks(tmp_path: Path) -> None:
    code = """
        import torch

        def counted():
            number = 0
            while True:
                yield number
                number += 1

        def main():
            side = torch.cuda.Stream()
            x = torch.ones(1 << 20, device="cuda") * 2
            for number in counted():
                with torch.cuda.stream(side):
                    y = x * number
                side.synchronize()
                print(y.sum().item())
        """
    one = next(one for one in findings(tmp_path, code) if one.code == "SL101")
    assert [place.message for place in one.related] == ["written on the current stream here"]


def test_the_owner_of_memory_and_who_uses_it_are_told_apart(tmp_path: Path) -> None:
    code = """
        import cupy as cp

        STREAMS = [cp.cuda.Stream(non_blocking=True) for _ in range(4)]

        def main(rows, sample):
            total = cp.zeros(1 << 20)
            for chunk in rows:
                y = cp.fft.fft(cp.asarray(chunk))
                for number in range(4):
                    stream = STREAMS[number]
                    stream.use()
                    total += y * sample
                del y
                STREAMS[0].synchronize()
        """
    for one in findings(tmp_path, code):
        if one.code == "SL401":
            assert "on `stream` when it goes back to the allocator of `stream`" not in one.message
            assert "make `stream` wait for `stream`" not in one.help
            break
    else:
        pytest.fail("nothing is told of the memory that goes back")
