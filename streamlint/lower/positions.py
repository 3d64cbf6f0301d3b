"""Where libcst's nodes stand in the text.

libcst computes no positions while parsing. Its own providers cost more than the parse (they keep
every token and go through a generator-based context manager for every node); this one keeps
offsets only, at about a quarter of the parse. ``CodegenState`` is the hook that those providers
use as well.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import libcst as cst
from libcst._nodes.internal import CodegenState

from streamlint.source import Span

if TYPE_CHECKING:
    from types import TracebackType

    from streamlint.lower.text import Segment

# These record no syntactic position of their own, or one that leaves out what belongs to them:
# a tuple's parentheses; and where the suite begins is where the header ends.
_WHOLE: frozenset[type[cst.CSTNode]] = frozenset(
    {
        cst.IndentedBlock,
        cst.SimpleStatementSuite,
        cst.Tuple,
        cst.GeneratorExp,
        cst.Index,
        cst.Slice,
        cst.ClassDef,
    }
)


class _Placed(AbstractContextManager[None]):
    """Records the offsets between entering and leaving as the place of ``node``."""

    __slots__ = ("_node", "_start", "_state")

    def __init__(self, state: _OffsetState, node: cst.CSTNode) -> None:
        self._state = state
        self._node = node
        self._start = state.offset

    def __enter__(self) -> None:
        """Faster than the inherited one, which is Python code that returns ``self``."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._state.spans[id(self._node)] = (self._start, self._state.offset)


class _OffsetState(CodegenState):
    """Counts code points instead of keeping tokens."""

    def __init__(self, module: cst.Module, text: str) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.text = text
        self.offset = 0
        # By identity, as libcst compares nodes too: their own hash is Python code.
        self.spans: dict[int, tuple[int, int]] = {}
        self.whole: dict[int, tuple[int, int]] = {}

    def add_indent_tokens(self) -> None:
        self.offset += sum(map(len, self.indent_tokens))

    def add_token(self, value: str) -> None:
        self.offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if type(node) in _WHOLE:
            if isinstance(node, cst.BaseSuite):
                self.offset += self._lag(self.offset, ":")
            self.whole[id(node)] = (self.offset, self.offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        if type(node) in _WHOLE:
            self.whole[id(node)] = (self.whole[id(node)][0], self.offset)
        elif type(node) is cst.FormattedString:
            start, end = self.spans[id(node)]  # parentheses may have been written after it
            if lag := self._lag(end, node.end):
                self.offset += lag
                self.spans[id(node)] = (start, end + lag)

    def _lag(self, offset: int, token: str) -> int:
        """Code points that libcst 1.9 parsed and did not give back, before the token that ends at an offset.

        It forgets the space before the colon in ``except E :`` and in ``f"{x!r :>3}"``.
        """
        if self.text.startswith(token, offset - len(token)):
            return 0
        found = self.text.find(token, offset - len(token))
        return 0 if found < 0 else found + len(token) - offset

    def record_syntactic_position(  # type: ignore[override]
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,  # noqa: ARG002 -- libcst passes both by name
        end_node: cst.CSTNode | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        return _Placed(self, node)


class Positions:
    """Spans of the nodes of one parsed segment."""

    __slots__ = ("_module", "_segment", "_spans", "_starts", "_whole")

    def __init__(self, segment: Segment, module: cst.Module) -> None:
        state = _OffsetState(module, segment.text)
        module._codegen(state)
        self._module = module  # as long as it is there, no other node has the identity of one of its nodes
        self._segment = segment
        self._spans = state.spans
        self._whole = state.whole
        self._starts = _line_starts(segment.text)

    def span(self, node: cst.CSTNode) -> Span:
        """The node without the whitespace, and for most expressions the parentheses, around it."""
        start, end = self._place(node)
        return self._between(start, end)

    def between(self, first: cst.CSTNode, last: cst.CSTNode) -> Span:
        """From the start of one node to the end of another."""
        return self._between(self._place(first)[0], self._place(last)[1])

    def header(self, statement: cst.CSTNode, suite: cst.BaseSuite) -> Span:
        """A compound statement up to the colon, which its suite follows directly."""
        return self._between(self._spans[id(statement)][0], self._whole[id(suite)][0])

    def header_of_match(self, statement: cst.Match) -> Span:
        """A ``match`` statement has no suite: up to the first colon after its subject."""
        end = self._segment.text.find(":", self._place(statement.subject)[1]) + 1
        return self._between(self._spans[id(statement)][0], end)

    def lines_of_class(self, node: cst.ClassDef) -> tuple[int, int]:
        """First and last line of a class, with its decorators and comments that follow."""
        start = self._place(node.decorators[0])[0] if node.decorators else self._spans[id(node)][0]
        end = self._whole[id(node)][1]
        return self._line(start) + self._segment.shift + 1, self._line(end - 1) + self._segment.shift + 1

    def _place(self, node: cst.CSTNode) -> tuple[int, int]:
        place = self._whole.get(id(node))
        return self._spans[id(node)] if place is None else place

    def _line(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def _between(self, start: int, end: int) -> Span:
        starts, shift = self._starts, self._segment.shift + 1
        line = bisect_right(starts, start) - 1
        last = line if line + 1 == len(starts) or end < starts[line + 1] else self._line(end)
        path = self._segment.source.path
        return Span(path, line + shift, start - starts[line], last + shift, end - starts[last])


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts[:-1]
