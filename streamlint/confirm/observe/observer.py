"""Sets up the tracers in this process, and judges what they saw."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import TYPE_CHECKING

from streamlint.confirm.inside.cupti import CuptiUnavailableError
from streamlint.confirm.observe import host_access
from streamlint.confirm.observe.aside import Aside
from streamlint.confirm.observe.device import Device
from streamlint.confirm.observe.driver_tracer import DriverTracer
from streamlint.confirm.observe.host_functions import HostFunctions
from streamlint.confirm.observe.imports import Finder
from streamlint.confirm.observe.recorder import HALF_WINDOW, Recorder
from streamlint.confirm.observe.sites import Frames, Sources, library_folders
from streamlint.confirm.observe.translate import trace_of
from streamlint.frozen import frozen, replace
from streamlint.judging.judge import findings_of_recording
from streamlint.models.cuda_driver import CUDA_DRIVER
from streamlint.models.cuda_runtime import CUDA_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import CodeType, ModuleType

    from streamlint.confirm.inside.cupti import Cupti
    from streamlint.confirm.observe.recorder import Window
    from streamlint.finding import Finding, Pair
    from streamlint.judging.judge import Conditional
    from streamlint.models.schema import Framework
    from streamlint.source import Span


_OBJECTS = 2_800
"""So many new objects before Python looks for garbage. Of four that a program makes now, three are records,
which are none; by its own threshold all that it has would be walked over four times as often."""

UNTRACED = frozenset({"cupy", "cuda.core", "cuda.core.experimental", "numba.cuda", "pycuda.driver"})
"""Traced by their driver calls alone: where those are not seen, what they may order is only `possible`."""


@frozen()
class Observed:
    """What a program did wrong, one finding for a rule and pair of places, without fingerprints."""

    findings: tuple[Finding, ...]
    events: int
    """Operations, allocations and frees that were seen."""
    blind: str = ""
    """Why calls of other libraries than PyTorch and cuda-python were not seen."""
    processes: int = 1


def together(seen: Sequence[Observed]) -> Observed | None:
    """What several processes of a program did; the ranks of a training have the same finding, once."""
    found: dict[Pair, Finding] = {}
    for finding in (finding for one in seen for finding in one.findings):
        known = found.get(finding.pair)
        if known is None or finding.confidence.rank > known.confidence.rank:
            found[finding.pair] = finding
    # One that did nothing on a GPU says nothing.
    working = [one for one in seen if one.events] or list(seen[:1])
    blind = next((one.blind for one in working if one.blind), "")
    events = sum(one.events for one in working)
    return Observed(tuple(found.values()), events, blind, len(working)) if seen else None


class Observer:
    """Traces this process from ``install`` on. Places outside of ``root`` are shown relative to it too."""

    def __init__(self, root: Path, half_window: int = HALF_WINDOW, device: Device | None = None) -> None:
        self._frames = Frames(library_folders())
        self._sources = Sources(root)
        self._device = device if device is not None else Device()
        self.recorder = Recorder(
            self._frames.place, self._frames.callers, self._device.stream_kind, self._judge, half_window
        )
        self.functions = HostFunctions(self.recorder)
        self.memory = host_access.HostMemory(self.recorder, self.functions)
        self._aside = Aside()
        self._subscription: Cupti | None = None
        self._blind = ""
        self._found: dict[Pair, Conditional] = {}
        self._recorded: set[Span | None] = set()

    def install(self) -> None:
        """Trace the libraries that are loaded, and those that will be."""
        import builtins

        for name, function in self.memory.names().items():
            setattr(builtins, name, function)
        after: dict[str, Callable[[ModuleType], None]] = {"torch": self._torch, "cupy": self._cupy}
        for framework in (CUDA_RUNTIME, CUDA_DRIVER):
            for module in framework.modules:
                after[module] = self._cuda(framework)
        Finder(after, self._frames.is_user, host_access.compile_source).install()
        os.register_at_fork(after_in_child=self.recorder.forked)
        often, *rest = gc.get_threshold()
        if often:
            gc.set_threshold(max(often, _OBJECTS), *rest)
        self._subscribe()

    def _subscribe(self) -> None:
        """See what other libraries ask of the driver, if that can be seen."""
        try:
            tracer = DriverTracer(self.recorder, self._device, self.functions, self._aside)
            self._subscription = tracer.subscribe()
        except CuptiUnavailableError as error:
            self._blind = str(error)
        else:
            atexit.register(self._subscription.close)  # no callback may run while the interpreter ends

    def compile(self, source: bytes, path: str) -> CodeType:
        return host_access.compile_source(source, path)

    def take(self) -> Observed:
        """Judge what was not judged yet, and give everything back that was found."""
        self.recorder.turn()
        recorded = self._recorded
        findings = tuple(
            item.finding
            for item in self._found.values()
            if item.unless_recorded is None or item.unless_recorded.span not in recorded
        )
        return Observed(findings, self.recorder.count, self._blind)

    def forget(self) -> None:
        """Start anew, as if the program began here; all work must be complete."""
        self.recorder.forget()
        self._found.clear()
        self._recorded.clear()

    def _torch(self, _: ModuleType) -> None:
        import torch

        from streamlint.confirm.observe import torch_hooks

        self._frames.backward = torch._C._current_graph_task_id
        # Modules and functions: to walk over them each time that Python looks for garbage takes 0.1 s.
        gc.freeze()
        torch_hooks.install(self.recorder, self._aside)

    def _cupy(self, _: ModuleType) -> None:
        if self._subscription is not None:
            from streamlint.confirm.observe import cupy_hooks

            cupy_hooks.install(self.recorder, self._aside, self.functions)

    def _cuda(self, framework: Framework) -> Callable[[ModuleType], None]:
        from streamlint.confirm.observe import cuda_tracer

        def wrap(module: ModuleType) -> None:
            cuda_tracer.install(module, framework, self.recorder, self._device, self.functions, self._aside)

        return wrap

    def _judge(self, window: Window) -> None:
        untraced = self._subscription is None and not UNTRACED.isdisjoint(sys.modules)
        window.escapes = untraced or self.recorder.escapes
        trace = trace_of(window, self._sources)
        if trace is not None:
            for event in self.recorder.recorded:
                known = trace.events.get(event)
                if known is not None:
                    self._recorded.add(known.span)
            self.recorder.recorded.clear()
            for item in findings_of_recording(trace):
                self._keep(item)

    def _keep(self, item: Conditional) -> None:
        # The trace of a window is large, and nothing after this needs it.
        finding = replace(item.finding, evidence=None)
        known = self._found.get(finding.pair)
        if known is None or finding.confidence.rank > known.finding.confidence.rank:
            self._found[finding.pair] = replace(item, finding=finding)
