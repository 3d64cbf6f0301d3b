"""What CuPy makes of an array of NumPy's is a new array, also where `asarray` is asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.finding import Confidence
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

STACKER = """\
import cupy as cp
import numpy as np


class Stacker:
    def __init__(self, n):
        self.feed = cp.cuda.Stream(non_blocking=True)
        self.math = cp.cuda.Stream(non_blocking=True)
        with self.math:
            self.total = cp.zeros(n)

    def add(self, rows{annotation}):
        with self.feed:
            part = cp.asarray({rows})
        self.math.wait_event(self.feed.record())
        with self.math:
            self.total += part
        {kept}
"""
SPECTRA = """\
import cupy
import numpy


def spectra(reader: "Reader", out: cupy.ndarray):
    feed, math = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    for k in range(len(reader)):
        with feed:
            frame = cupy.asarray({rows})
        math.wait_event(feed.record())
        with math:
            out[k] = cupy.abs(frame)
        {kept}
    math.synchronize()
"""


def of_lifetimes(root: Path, text: str) -> set[Confidence]:
    found = engine.analyze(root, written(root, {"run.py": text}), engine.Settings()).findings
    return {finding.confidence for finding in found if finding.code == "SL401"}


@pytest.mark.parametrize(
    ("rows", "annotation"), [("rows", ": np.ndarray"), ("np.ascontiguousarray(rows)", "")]
)
def test_an_array_of_numpys_is_copied(tmp_path: Path, rows: str, annotation: str) -> None:
    kept = "self.feed.wait_event(self.math.record())"
    found = of_lifetimes(tmp_path, STACKER.format(rows=rows, annotation=annotation, kept=""))
    assert found
    assert Confidence.POSSIBLE not in found
    assert not of_lifetimes(tmp_path, STACKER.format(rows=rows, annotation=annotation, kept=kept))


def test_so_is_one_that_numpy_reads(tmp_path: Path) -> None:
    rows = "numpy.asarray(reader.read(k))"
    found = of_lifetimes(tmp_path, SPECTRA.format(rows=rows, kept=""))
    assert found
    assert Confidence.POSSIBLE not in found
    kept = "feed.wait_event(math.record())"
    assert not of_lifetimes(tmp_path, SPECTRA.format(rows=rows, kept=kept))


def test_what_is_not_known_may_be_on_the_device(tmp_path: Path) -> None:
    text = STACKER.format(rows="rows", annotation="", kept="")
    assert of_lifetimes(tmp_path, text) <= {Confidence.POSSIBLE}


WINDOWED = """\
import cupy as cp
import numpy as np


class Spectrogram:
    def __init__(self, n):
        self.math = cp.cuda.Stream(non_blocking=True)
        self.copy = cp.cuda.Stream(non_blocking=True)
        with self.math:
            self.window = cp.hanning(n)

    def _power(self, rows: np.ndarray):
        return cp.abs(cp.asarray(rows.reshape(-1, 64)) * self.window)

    def run(self, signal: np.ndarray) -> float:
        with self.math:
            power = self._power(signal[:4096])
        self.copy.wait_event(self.math.record())
        total = power.get(stream=self.copy)
        self.copy.synchronize()
        return float(total.sum())
"""


def test_no_caller_has_queued_work_on_it(tmp_path: Path) -> None:
    found = engine.analyze(tmp_path, written(tmp_path, {"run.py": WINDOWED}), engine.Settings()).findings
    assert all(finding.confidence is Confidence.POSSIBLE for finding in found)
