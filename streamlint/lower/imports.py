"""What ``import`` statements bind, with relative modules made absolute."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from streamlint import ir, names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.lower.text import Segment, SourceText
    from streamlint.source import Span


def lower_imports(segment: Segment, node: ast.Import | ast.ImportFrom) -> Iterator[ir.Import]:
    """One ``Import`` for each name that the statement binds."""
    span = segment.span(node)
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield _plain_import(span, alias.name, alias.asname)
        else:
            yield _from_import(span, segment.source, node.level, node.module or "", alias.name, alias.asname)


def _plain_import(span: Span, module: str, alias: str | None) -> ir.Import:
    """``import a.b`` binds "a" to module "a"; ``import a.b as c`` binds "c" to module "a.b"."""
    if alias is not None:
        return ir.Import(span, alias, module, None)
    top = module.partition(".")[0]
    return ir.Import(span, top, top, None)


def _from_import(
    span: Span, source: SourceText, level: int, module: str, attribute: str, alias: str | None
) -> ir.Import:
    """One name of ``from <level dots><module> import attribute as alias``.

    ``from . import x`` in a module that stands in no package binds the sibling module ``x``. Dots
    that lead above the root stay in the module's text: no module has such a name.
    """
    absolute = absolute_module(source, level, module)
    if not absolute:
        return ir.Import(span, alias or attribute, attribute, None)
    return ir.Import(span, alias or attribute, absolute, attribute)


def absolute_module(source: SourceText, level: int, module: str) -> str:
    """The absolute name of ``module`` behind ``level`` dots; level 0 is absolute already."""
    if level == 0:
        return module
    package = names.package_of(source.module, source.path, is_package=source.is_package)
    found = names.relative(package, source.path, level, module)
    return "." * level + module if found is None else found
