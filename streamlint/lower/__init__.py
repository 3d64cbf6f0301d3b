"""Python source to ``streamlint.ir``, by way of ``ast``. Nothing behind it knows of syntax trees."""

from __future__ import annotations

from streamlint.lower.index import check_syntax, index_module
from streamlint.lower.kept import Lowered

__all__ = ["Lowered", "check_syntax", "index_module"]
