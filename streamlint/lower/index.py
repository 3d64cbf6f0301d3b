"""The index of a module: what it imports and declares. No body is lowered: most functions never are."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.lower.header import header
from streamlint.lower.imports import absolute_module, lower_imports
from streamlint.lower.kept import Lowered
from streamlint.lower.outline import Looked, Noted, digest, in_tables, outside
from streamlint.lower.scan import (
    DEFINITIONS,
    IMPORTS,
    bound_names,
    dotted,
    flat,
    given,
    scan,
)
from streamlint.lower.text import Segment, SourceText, gc_paused
from streamlint.lower.units import Block, BlockKind, Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_D = TypeVar("_D", ir.FunctionDecl, ir.ClassDecl)


def index_module(
    text: str,
    path: str,
    name: str,
    is_package: bool,
    lowered: Lowered | None = None,
    looked: Looked | None = None,
) -> ir.Module:
    """Index one source file.

    ``path`` goes into every span as it is; ``name`` is the dotted import name, from which relative
    imports are resolved. Raises ``ir.LoweringError`` for text that is not Python of the running
    version; bodies that cannot be lowered raise it when they are loaded. ``lowered`` has the functions of the
    text that the file held before; ``looked`` is where it is noted whose code somebody looks at.

    Of several definitions of one name the last one counts, but one in a fallback branch (``else``,
    ``except``, ``if TYPE_CHECKING``) does not replace an earlier one.
    """
    source = SourceText.of(text, path, name, is_package)
    with gc_paused():
        segment = Segment(source, "\n".join(source.lines), 0, False)
        lowered = lowered if lowered is not None else Lowered()
        lowered.begin()
        looked = looked if looked is not None else set()
        return _Indexer(segment, lowered, looked).module(segment.parse_ast())


def check_syntax(text: str, path: str) -> None:
    """Raises the ``ir.LoweringError`` that ``index_module`` would."""
    source = SourceText.of(text, path, "", False)
    with gc_paused():
        Segment(source, "\n".join(source.lines), 0, False).parse_ast()


def index_class(segment: Segment, node: ast.ClassDef, prefix: str) -> ir.ClassDecl:
    """Index a class that stands in a function; ``prefix`` of its qualified name."""
    return _Indexer(segment, Lowered(), set()).class_(node, prefix)


def _lower_function(source: SourceText, lines: Lines, prefix: str) -> ir.Function:
    from streamlint.lower.body import lower_function

    return lower_function(source, lines, prefix, index_class)


def _lower_block(source: SourceText, block: Block) -> tuple[ir.Stmt, ...]:
    from streamlint.lower.body import lower_block

    return lower_block(source, block, index_class)


@frozen()
class _Indexer:
    segment: Segment
    lowered: Lowered
    looked: Looked

    def module(self, body: list[ast.stmt]) -> ir.Module:
        source = self.segment.source
        functions: dict[str, ir.FunctionDecl] = {}
        classes: dict[str, ir.ClassDecl] = {}
        imports: list[ir.Import] = []
        for statement, fallback in flat(body):
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    _declare(functions, self.function(statement, ""), fallback)
                case ast.ClassDef():
                    _declare(classes, self.class_(statement, ""), fallback)
                case ast.Import() | ast.ImportFrom():
                    imports.extend(lower_imports(self.segment, statement))
                case _:
                    pass
        top = Block(tuple(self.runs(body, (*DEFINITIONS, *IMPORTS))), "", BlockKind.MODULE)
        return ir.Module(
            name=source.module,
            path=source.path,
            is_package=source.is_package,
            imports=tuple(imports),
            functions=functions,
            classes=classes,
            assigned=frozenset(bound_names(body)),
            body_names=_names_of_body(body),
            body_given=_given_by_body(body),
            load_body=self.block_loader(top),
            outside=outside(source.lines, _alone(body, in_tables(functions, classes))),
        )

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str) -> ir.FunctionDecl:
        source = self.segment.source
        end_line = self.segment.end(node)[0]
        first = _first_line(node) + self.segment.shift
        text = source.lines[first - 1 : end_line]
        words = self.lowered.words.get(text, partial(scan, node))()
        lines = Lines(first, end_line, words.depth, source.size(first, end_line))
        lazy = self.lowered.functions.get(
            (prefix, first, text), partial(_lower_function, source, lines, prefix)
        )
        return ir.FunctionDecl(
            name=node.name,
            qualname=prefix + node.name,
            module=source.module,
            span=header(self.segment, node),
            end_line=end_line,
            decorators=tuple(dotted(decorator) for decorator in node.decorator_list),
            used=words.names - words.variables,
            members=words.members,
            called=words.called,
            own=words.own,
            globals=words.globals,
            given=words.given,
            entered=words.entered,
            keywords=words.keywords,
            stored=words.stored,
            packages=words.packages,
            imports=frozenset(
                (absolute_module(source, level, module), taken) for level, module, taken in words.imported
            ),
            text_names=words.names,
            text_variables=words.variables,
            load=Noted(lazy, source.module, digest(prefix + node.name, str(first), *text), self.looked),
        )

    def class_(self, node: ast.ClassDef, prefix: str) -> ir.ClassDecl:
        qualname = prefix + node.name
        methods: dict[str, ir.FunctionDecl] = {}
        setters: dict[str, ir.FunctionDecl] = {}
        inner: dict[str, ir.ClassDecl] = {}
        for statement, fallback in flat(node.body):
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    decl = self.function(statement, f"{qualname}.")
                    if (table := _table(decl, methods, setters)) is not None:
                        _declare(table, decl, fallback)
                case ast.ClassDef():
                    _declare(inner, self.class_(statement, f"{qualname}."), fallback)
                case _:
                    pass
        block = self.class_block(node, f"{qualname}.")
        return ir.ClassDecl(
            name=node.name,
            qualname=qualname,
            module=self.segment.source.module,
            span=header(self.segment, node),
            bases=tuple(dotted(base) if not isinstance(base, ast.Call) else "?" for base in node.bases),
            decorators=tuple(dotted(decorator) for decorator in node.decorator_list),
            methods=methods,
            setters=setters,
            inner=inner,
            unread=tuple(lines.unreadable for lines in block.runs if lines.unreadable),
            load_body=self.block_loader(block),
        )

    def class_block(self, node: ast.ClassDef, prefix: str) -> Block:
        first = node.body[0]
        line = self.segment.source.lines[first.lineno + self.segment.shift - 1]
        if first.lineno > node.lineno and not line[: self.segment.span(first).col].strip():
            return Block(tuple(self.runs(node.body, DEFINITIONS)), prefix, BlockKind.CLASS)
        # class Config: depth = 2      the body cannot be cut off by lines
        return Block((self.lines(node),), prefix, BlockKind.ONE_LINE_CLASS)

    def block_loader(self, block: Block) -> Noted[tuple[ir.Stmt, ...]]:
        source = self.segment.source
        text = tuple(source.lines[lines.first - 1 : lines.last] for lines in block.runs)
        lazy = self.lowered.blocks.get((block, text), partial(_lower_block, source, block))
        # The text of these statements is part of what stands around functions.
        lines = (f"{lines.first} {lines.last}" for lines in block.runs)
        return Noted(lazy, source.module, digest(block.prefix, *lines), self.looked)

    def runs(self, body: Sequence[ast.stmt], left_out: tuple[type[ast.stmt], ...]) -> Iterator[Lines]:
        """Stretches of statements between the definitions (and imports) of a block.

        What is too deep or too large to be read stands alone, so that the rest is.
        """
        current: Lines | None = None
        for statement in body:
            if not isinstance(statement, left_out):
                lines = self.lines(statement)
                joined = lines if current is None else current.joined(lines)
                if current is not None and joined.unreadable and current.last < lines.first:
                    yield current
                    joined = lines
                current = joined
            elif current is not None:
                yield current
                current = None
        if current is not None:
            yield current

    def lines(self, node: ast.stmt) -> Lines:
        first, last = _first_line(node) + self.segment.shift, self.segment.end(node)[0]
        return Lines(first, last, scan(node).depth, self.segment.source.size(first, last))


def _alone(body: Sequence[ast.stmt], decls: Iterator[ir.FunctionDecl]) -> list[ir.FunctionDecl]:
    """Functions that are no part of another statement: what stands under ``try`` is part of that.

    ``_names_of_body`` and ``_given_by_body`` look at all of such a statement.
    """
    classes = (node for node in body if isinstance(node, ast.ClassDef))
    statements = (*body, *(node for cls in classes for node in cls.body))
    first = {node.lineno for node in statements if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return [decl for decl in decls if decl.span.line in first]


def _names_of_body(body: Sequence[ast.stmt]) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    return names.union(*(scan(node).names for node in body if not isinstance(node, (*DEFINITIONS, *IMPORTS))))


def _given_by_body(body: Sequence[ast.stmt]) -> tuple[tuple[str, frozenset[str]], ...]:
    names = set(bound_names(body))
    plain = (node for node in body if not isinstance(node, (*DEFINITIONS, *IMPORTS)))
    return tuple(pair for node in plain for pair in given(node, names))


def _declare(table: dict[str, _D], decl: _D, fallback: bool) -> None:
    if not (fallback and decl.name in table):
        table[decl.name] = decl


def _table(
    decl: ir.FunctionDecl, methods: dict[str, ir.FunctionDecl], setters: dict[str, ir.FunctionDecl]
) -> dict[str, ir.FunctionDecl] | None:
    """Where a method goes; ``@x.deleter`` goes nowhere, since it must not hide the getter ``x``."""
    for decorator in decl.decorators:
        if decorator == f"{decl.name}.setter" or decorator.endswith(f".{decl.name}.setter"):
            return setters
        if decorator.endswith(".deleter"):
            return None
    return methods


def _first_line(node: ast.stmt) -> int:
    """The first line of a statement with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
