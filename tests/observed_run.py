"""What a tracer tells the recorder, and the windows that are judged: for tests without a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.confirm.observe.events import (
    Block,
    Place,
    Touch,
    Touched,
)
from streamlint.confirm.observe.recorder import Recorder, Window
from streamlint.confirm.observe.sites import Sources
from streamlint.confirm.observe.translate import trace_of
from streamlint.judging.judge import findings_of_recording
from streamlint.trace import (
    Mode,
    Space,
    StreamId,
    StreamKind,
    Trace,
)

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT, SIDE, OTHER = 0, 0x100, 0x200


@dataclass
class Run:
    """A recorder whose places are the numbers of the calls, and the windows it judged."""

    root: Path
    half: int = 1000
    kind: StreamKind = StreamKind.NON_BLOCKING
    windows: list[Window] = field(default_factory=list)
    calls: int = 0
    over: bool = False

    def __post_init__(self) -> None:
        self.recorder = Recorder(
            self._where, lambda: (self._where(),), lambda _: self.kind, self.windows.append, self.half
        )

    def _where(self) -> Place:
        # One code object a call, with its only statement on the line that counts the calls.
        self.calls += 1
        code = compile("\n" * self.calls + "a", "observed.py", "exec")
        return (code, next(start for start, _, line in code.co_lines() if line == self.calls + 1))

    def stream(self, handle: int) -> StreamId:
        return self.recorder.stream(handle, "0")

    def block(self, start: int, size: int = 64, owner: int | None = DEFAULT) -> Block:
        stream = None if owner is None else self.stream(owner)
        return self.recorder.born(start, size, Space.DEVICE, "0", stream)

    def work(self, handle: int, *touches: tuple[Block, Mode]) -> None:
        whole: list[Touched] = [Touch(block, mode, 0, block.size) for block, mode in touches]
        self.recorder.work(self.stream(handle), "kernel", whole)

    def record(self, event: int, handle: int) -> None:
        self.recorder.record(self.recorder.event(event, "0"), self.stream(handle))

    def wait(self, handle: int, event: int) -> None:
        self.recorder.wait(self.stream(handle), self.recorder.event(event, "0"))

    def traces(self) -> list[Trace]:
        """The traces of all windows; the run is over when they are asked for."""
        if not self.over:
            self.recorder.turn()
            self.over = True
        made = [trace_of(window, Sources(self.root)) for window in self.windows]
        return [trace for trace in made if trace is not None]

    def trace(self) -> Trace:
        (trace,) = self.traces()
        return trace

    def codes(self) -> list[str]:
        return [item.finding.code for trace in self.traces() for item in findings_of_recording(trace)]
