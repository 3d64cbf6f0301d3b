"""Lowering on demand: parses a few lines, walks them once, drops the tree."""

from __future__ import annotations

import ast
from functools import partial

from streamlint import ir
from streamlint.frozen import replace
from streamlint.lower.beginning import beginning
from streamlint.lower.context import Context, IndexClass, Scope
from streamlint.lower.scan import FUNCTIONS
from streamlint.lower.stmt import lower_def, lower_statements
from streamlint.lower.text import Lazy, Segment, SourceText, gc_paused, recursion_room
from streamlint.lower.units import MAX_DEPTH, MAX_TEXT, Block, BlockKind, Lines
from streamlint.source import Span


def lower_function(source: SourceText, lines: Lines, prefix: str, index_class: IndexClass) -> ir.Function:
    """The function that stands alone on ``lines``; raises ``ir.LoweringError``."""
    if lines.size > MAX_TEXT and lines.depth <= MAX_DEPTH:
        beginning = Lazy(partial(_lower_beginning, source, lines, prefix, index_class))
        raise ir.TooLarge(source.path, lines.first, lines.unreadable, beginning)
    segment = source.segment(lines.first, lines.last)
    return _lower_definition(source, segment, lines, prefix, index_class)


def _lower_beginning(source: SourceText, lines: Lines, prefix: str, index_class: IndexClass) -> ir.Function:
    segment = source.segment(lines.first, lines.last)
    with gc_paused():
        segment = replace(segment, text=beginning(segment, MAX_TEXT))
    return _lower_definition(source, segment, replace(lines, size=0), prefix, index_class)


def _lower_definition(
    source: SourceText, segment: Segment, lines: Lines, prefix: str, index_class: IndexClass
) -> ir.Function:
    with gc_paused(), recursion_room(lines.depth):
        try:
            cx, (node,) = _parse(source, segment, lines, prefix, index_class)
            assert isinstance(node, FUNCTIONS)
            return lower_def(cx, node)
        except RecursionError:
            raise _too_deep(source, lines) from None


def lower_block(source: SourceText, block: Block, index_class: IndexClass) -> tuple[ir.Stmt, ...]:
    """The statements of a module or class body, in order; what cannot be read of it is ``ir.Unread``."""
    lowered = (s for lines in block.runs for s in _lower_or_leave(source, lines, block, index_class))
    return tuple(statement for statement in lowered if not _is_indexed(statement, block.kind))


def _lower_or_leave(
    source: SourceText, lines: Lines, block: Block, index_class: IndexClass
) -> tuple[ir.Stmt, ...]:
    try:
        return _lower_lines(source, lines, block, index_class)
    except ir.LoweringError as error:
        span = Span(source.path, lines.first, 0, lines.last, len(source.lines[lines.last - 1]))
        return (ir.Unread(span, error.message),)


def _lower_lines(
    source: SourceText, lines: Lines, block: Block, index_class: IndexClass
) -> tuple[ir.Stmt, ...]:
    with gc_paused(), recursion_room(lines.depth):
        try:
            segment = source.segment(lines.first, lines.last)
            cx, nodes = _parse(source, segment, lines, block.prefix, index_class)
            if block.kind is BlockKind.ONE_LINE_CLASS and isinstance(nodes[0], ast.ClassDef):
                nodes = nodes[0].body
            return tuple(lower_statements(cx, nodes))
        except RecursionError:
            raise _too_deep(source, lines) from None


def _is_indexed(statement: ir.Stmt, kind: BlockKind) -> bool:
    """Whether the index has it: ``import b`` on the line ``a = 1; import b`` came along with the line."""
    if isinstance(statement, ir.Import):
        return kind is BlockKind.MODULE
    return isinstance(statement, (ir.FunctionDef, ir.ClassDef))


def _parse(
    source: SourceText, segment: Segment, lines: Lines, prefix: str, index_class: IndexClass
) -> tuple[Context, list[ast.stmt]]:
    if lines.unreadable:
        raise ir.LoweringError(source.path, lines.first, lines.unreadable)
    return Context(segment, index_class, Scope(prefix)), segment.parse_ast()


def _too_deep(source: SourceText, lines: Lines) -> ir.LoweringError:
    return ir.LoweringError(source.path, lines.first, f"nested too deeply ({lines.depth} levels)")
