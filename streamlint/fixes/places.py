"""Where a line comes after one operation and before another, and what it can name there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from streamlint.finding import Edit
from streamlint.fixes.safety import is_safe
from streamlint.fixes.text import unconditional
from streamlint.fixes.words import EVENT
from streamlint.frozen import frozen
from streamlint.parsing import expression_of
from streamlint.source import Span
from streamlint.trace import MAIN_LANE, HostWait, Join, Spawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.fixes.replay import Onlooker
    from streamlint.fixes.sight import Sight
    from streamlint.fixes.surroundings import Surroundings
    from streamlint.fixes.text import Source
    from streamlint.fixes.words import Named
    from streamlint.trace import OpId, Trace


@frozen()
class Place:
    """Before a statement or behind it."""

    source: Source
    statement: ast.stmt
    sight: Sight
    surroundings: Surroundings
    behind: bool = False

    def insertion(self, lines: Sequence[str]) -> Edit:
        indent = self.source.indent(self.statement) or ""
        line = self.source.line_before(self.statement)
        text = "".join(f"{indent}{each}\n" for each in lines)
        if self.behind:
            line = self.source.line_after(self.statement) or line
            if line > len(self.source.lines) and not self.source.lines[-1].endswith(("\r", "\n")):
                text = "\n" + text.removesuffix("\n")
        return Edit(Span(self.source.path, line, 0, line, 0), text)

    def event(self) -> str:
        """A name for a new event that nothing in the function has."""
        taken = self.source.names(self.source.scope(self.statement)) | set(self.sight.apis.values())
        names = (EVENT, *(f"{EVENT}_{number}" for number in range(2, len(taken) + 3)))
        return next(each for each in names if each not in taken)

    def is_safe(self, lines: Sequence[str], *named: Named, tensor: str | None = None) -> bool:
        return is_safe(self, lines, named, tensor)

    def uses(self, *named: Named) -> bool:
        """Whether the statements beside it do what needs what a line names; a test of it does not."""
        used: set[str] = set()
        for part in (part for each in self.source.block(self.statement) for part in unconditional(each)):
            match part:
                case ast.Call(args=args):
                    used |= {ast.dump(each) for each in args}
                case ast.Attribute(value=value) | ast.withitem(context_expr=value):
                    used.add(ast.dump(value))
                case _:
                    pass
        return all(ast.dump(expression_of(each.text)) in used for each in named if each.simple)

    def sees(self, other: Place) -> bool:
        """Whether the names in the statement of another place stand for the same here."""
        names = {node.id for node in ast.walk(other.statement) if isinstance(node, ast.Name)}
        return all(self.sight.values.get(each) == other.sight.values.get(each) for each in names)


@frozen()
class Scene:
    """A path, and what could be named along it."""

    trace: Trace
    onlooker: Onlooker
    surroundings: Surroundings

    def places(self, earlier: int, later: int) -> Iterator[Place]:
        """Where what a line does comes after one operation and before another, the nearest to that first."""
        for stage in self.onlooker.stages.get(later, ()):
            for statement in stage.statements:
                sight = stage.before.get(stage.key(statement))
                if sight is None or not self._is_between(earlier, sight, later):
                    continue
                if stage.source.indent(statement) is not None:
                    yield Place(stage.source, statement, sight, self.surroundings)
        yield from self.behind(earlier, later)

    def behind(self, earlier: int, later: int) -> Iterator[Place]:
        """The places behind one operation that come before another, the innermost first."""
        for stage in self.onlooker.stages.get(earlier, ()):
            for statement in stage.statements:
                ends = self.onlooker.after.get((stage.frame, stage.key(statement)), ())
                sight = next((each for each in ends if self._is_between(earlier, each, later)), None)
                if sight is not None and stage.source.stands_alone(statement):
                    yield Place(stage.source, statement, sight, self.surroundings, behind=True)

    def _is_between(self, earlier: int, sight: Sight, later: int) -> bool:
        """Whether a place of the main thread comes after one operation is issued, and before another one.

        What a thread issues is there when the main one has waited for it, or for something that it has put
        somewhere; behind `thread.start()` it need not be.
        """
        if not (sight.is_main and earlier < sight.issued <= later):
            return False
        ops = self.trace.ops
        threads = {op.child for op in ops if isinstance(op, Spawn)}
        since = (op for op in ops[earlier + 1 : sight.issued] if op.lane == MAIN_LANE)
        return ops[earlier].lane not in threads or any(isinstance(op, (HostWait, Join)) for op in since)

    def statement(self, number: int | OpId) -> Place | None:
        """The statement that issues an operation, in the function in which it stands."""
        for stage in self.onlooker.stages.get(number, ())[:1]:
            sight = stage.before.get(stage.key(stage.statements[0]))
            if sight is not None:
                return Place(stage.source, stage.statements[0], sight, self.surroundings)
        return None
