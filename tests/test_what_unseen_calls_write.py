"""Which of several arrays an unseen kernel writes is not told: by what is read next, it is."""

from __future__ import annotations

import pytest

from streamlint.api import check_source
from streamlint.finding import Confidence

HEAD = """
import numpy as np
import pycuda.driver as cuda
from ours import build


def run(steps: int):
    kernels, copies = cuda.Stream(flags=1), cuda.Stream(flags=1)
    done = [cuda.Event() for _ in range(2)]
    host = cuda.pagelocked_empty((steps, 64), dtype=np.float32)
    field = [cuda.mem_alloc(256) for _ in range(2)]
    step = build("heat").get_function("step")
"""
PING_PONG = """
    for n in range(1, steps):
        new, old = field[n % 2], field[(n - 1) % 2]
        if n > 2:
            kernels.wait_for_event(copied[n % 2])
        step(old, new, block=(64, 1, 1), stream=kernels)
        done[n % 2].record(kernels)
        copies.wait_for_event(done[n % 2])
        cuda.memcpy_dtoh_async(host[n], new, stream=copies)
        copied[n % 2].record(copies)
    copies.synchronize()
"""
READ_NEXT = """
    cuda.memcpy_dtoh_async(host[0], field[0], stream=copies)
    step(field[1], field[0], block=(64, 1, 1), stream=kernels)
    cuda.memcpy_dtoh_async(host[1], field[0], stream=kernels)
    kernels.synchronize()
    copies.synchronize()
"""
ALONE = """
    cuda.memcpy_dtoh_async(host[0], field[0], stream=copies)
    step(field[0], block=(64, 1, 1), stream=kernels)
    kernels.synchronize()
"""
COPIED = "    copied = [cuda.Event() for _ in range(2)]\n"


def told(body: str) -> set[Confidence]:
    report = check_source(HEAD + COPIED + body, "ours_run.py", min_confidence="possible")
    return {finding.confidence for finding in report.findings if finding.code == "SL102"}


def test_the_older_of_two_buffers_may_only_be_read() -> None:
    assert told(PING_PONG) <= {Confidence.POSSIBLE}


@pytest.mark.parametrize("body", [READ_NEXT, ALONE], ids=["read next", "the only array"])
def test_what_is_read_next_or_is_the_only_array_was_written(body: str) -> None:
    assert told(body) & {Confidence.LIKELY, Confidence.CERTAIN}
