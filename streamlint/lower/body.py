"""Lowering on demand: parses a few lines with libcst, walks them once, drops the tree."""

from __future__ import annotations

import re

import libcst as cst

from streamlint import ir
from streamlint.lower.context import Context, IndexClass, Scope
from streamlint.lower.positions import Positions
from streamlint.lower.stmt import lower_def, lower_statements
from streamlint.lower.text import MAX_DEPTH, MAX_TEXT, Segment, SourceText, gc_paused, recursion_room
from streamlint.lower.units import Block, BlockKind, Lines


def lower_function(source: SourceText, lines: Lines, prefix: str, index_class: IndexClass) -> ir.Function:
    """The function that stands alone on ``lines``; raises ``ir.LoweringError``."""
    with gc_paused(), recursion_room(lines.depth):
        try:
            cx, (node,) = _parse(source, lines, prefix, index_class)
            assert isinstance(node, cst.FunctionDef)
            return lower_def(cx, node)
        except RecursionError:
            raise _too_deep(source, lines) from None


def lower_block(source: SourceText, block: Block, index_class: IndexClass) -> tuple[ir.Stmt, ...]:
    """The statements of a module or class body, in order; raises ``ir.LoweringError``."""
    lowered: list[ir.Stmt] = []
    for lines in block.runs:
        with gc_paused(), recursion_room(lines.depth):
            try:
                cx, nodes = _parse(source, lines, block.prefix, index_class)
                if block.kind is BlockKind.ONE_LINE_CLASS and isinstance(nodes[0], cst.ClassDef):
                    nodes = tuple(nodes[0].body.body)
                lowered.extend(lower_statements(cx, nodes))
            except RecursionError:
                raise _too_deep(source, lines) from None
    return tuple(statement for statement in lowered if not _is_indexed(statement, block.kind))


def _is_indexed(statement: ir.Stmt, kind: BlockKind) -> bool:
    """Whether the index has it: ``import b`` on the line ``a = 1; import b`` came along with the line."""
    if isinstance(statement, ir.Import):
        return kind is BlockKind.MODULE
    return isinstance(statement, (ir.FunctionDef, ir.ClassDef))


def _parse(
    source: SourceText, lines: Lines, prefix: str, index_class: IndexClass
) -> tuple[Context, tuple[cst.CSTNode, ...]]:
    if lines.depth > MAX_DEPTH:
        raise _too_deep(source, lines)
    segment = source.segment(lines.first, lines.last)
    if len(segment.text) > MAX_TEXT:
        raise ir.LoweringError(
            source.path, lines.first, f"too large to be read ({len(segment.text)} characters)"
        )
    try:
        tree = cst.parse_module(segment.text)
    except cst.ParserSyntaxError as error:
        # ``raw_line`` is the line after the right one if the error is found at a line's end.
        place = re.search(r"error at (\d+):", error.message)
        line = int(place[1]) if place is not None else error.raw_line
        raise segment.error(line, "Python accepts this, but libcst cannot parse it") from None
    cx = Context(source, Positions(segment, tree), index_class, Scope(prefix))
    return cx, _unwrapped(tree, segment)


def _unwrapped(tree: cst.Module, segment: Segment) -> tuple[cst.CSTNode, ...]:
    if segment.wrapped:
        wrapper = tree.body[0]
        assert isinstance(wrapper, cst.If)
        return tuple(wrapper.body.body)
    return tuple(tree.body)


def _too_deep(source: SourceText, lines: Lines) -> ir.LoweringError:
    return ir.LoweringError(source.path, lines.first, f"nested too deeply ({lines.depth} levels)")
