"""Probes wait for nothing while a graph is captured, whatever stream is current."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import TYPE_CHECKING, Any, cast

from streamlint.confirm.gpu.handles import library_is_capturing

if TYPE_CHECKING:
    import pytest


def test_a_capture_of_pytorch_is_known_on_other_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    class CUDAGraph:
        def capture_begin(self, pool: object = None) -> None:
            pass

        def capture_end(self) -> None:
            raise RuntimeError("capturing stream has unjoined work")

    cuda = types.SimpleNamespace(
        is_initialized=lambda: True, is_current_stream_capturing=lambda: False, CUDAGraph=CUDAGraph
    )
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setitem(sys.modules, "torch", cast("Any", types.SimpleNamespace(cuda=cuda)))
    assert not library_is_capturing()
    graph = CUDAGraph()
    graph.capture_begin(pool=None)
    assert library_is_capturing()
    with contextlib.suppress(RuntimeError):
        graph.capture_end()
    assert not library_is_capturing()
