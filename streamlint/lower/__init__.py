"""Python source to ``streamlint.ir``. The only package that uses libcst."""

from __future__ import annotations

from streamlint.lower.index import check_syntax, index_module

__all__ = ["check_syntax", "index_module"]
