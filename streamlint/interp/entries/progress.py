"""What the entries of a module that were run tell the later ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.interp.entries.runs import is_busy, is_plain
from streamlint.trace import Copy, Launch

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.interp.entries.runs import Run
    from streamlint.source import Span


@dataclass(slots=True)
class Told:
    """Functions by module and qualified name, entries by their labels."""

    covered: set[str] = field(default_factory=set)
    """Functions that were run to their end."""
    cut: set[str] = field(default_factory=set)
    """Functions in runs that were cut at a budget."""
    issuing: set[str] = field(default_factory=set)
    """Functions, by qualified name, that did something on the GPU."""
    busy: set[str] = field(default_factory=set)
    """Entries that did something on a second stream."""
    quiet: set[str] = field(default_factory=set)
    """All others."""
    plain: set[str] = field(default_factory=set)
    """Entries on whose paths there was nothing to order."""

    places: dict[str, frozenset[Span]] = field(default_factory=dict)
    """Where the memory was allocated that an entry used."""

    def note(self, run: Run) -> None:
        self.covered |= run.covered
        if any(trace.cut for trace in run.traces):
            self.cut |= run.covered
        self.issuing.update(op.at.function for trace in run.traces for op in trace.ops if op.at.calls)
        busy = any(is_busy(trace.ops) for trace in run.traces)
        (self.busy if busy else self.quiet).add(run.entry.label)
        self.places[run.entry.label] = frozenset(
            span
            for trace in run.traces
            for op in trace.ops
            if op.at.call and isinstance(op, (Launch, Copy))
            for access in op.accesses
            if (span := trace.buffers[access.buffer].span) is not None
        )
        if is_plain(run):
            self.plain.add(run.entry.label)

    def was_run(self, label: str) -> bool:
        return label in self.busy or label in self.quiet

    def is_covered(self, module: ir.Module, decl: ir.FunctionDecl) -> bool:
        return f"{module.name}:{decl.qualname}" in self.covered
