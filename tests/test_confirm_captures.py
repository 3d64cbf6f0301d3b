"""Probes wait for nothing while a graph is captured, whatever stream is current."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import TYPE_CHECKING, Any, cast

from streamlint.confirm.gpu.handles import library_is_capturing, streams_by_library

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


def test_the_current_stream_of_warp_is_asked_for_once_warp_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    device = types.SimpleNamespace(stream=types.SimpleNamespace(cuda_stream=0x100), is_capturing=True)

    def get_cuda_device(_: int | None) -> object:
        return device

    context = types.ModuleType("warp.context")
    vars(context)["runtime"] = None
    get_cuda_device.__module__ = context.__name__
    warp = types.SimpleNamespace(get_cuda_device=get_cuda_device, is_cuda_available=lambda: True)
    for name in ("torch", "cupy", "numba.cuda"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "warp", cast("Any", warp))
    monkeypatch.setitem(sys.modules, "warp.context", context)
    assert (streams_by_library(), library_is_capturing()) == ({}, False)
    vars(context)["runtime"] = object()
    assert (streams_by_library(), library_is_capturing()) == ({"warp": 0x100}, True)
    device.stream.cuda_stream = None  # the null stream
    assert streams_by_library() == {"warp": 0}
