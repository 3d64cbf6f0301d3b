"""Finds missing stream ordering in Python GPU code, without running it."""

from __future__ import annotations

# Nothing is imported here, `typing` neither: with `python -m streamlint` this runs while the current folder,
# which may hold a `typing.py` or what that imports, is still first on the path. Type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from streamlint.api import Result, check_paths, check_source
    from streamlint.errors import UserError
    from streamlint.finding import Confidence, Edit, Finding, Fix, Related, Seen, Severity, SourceError
    from streamlint.source import Span

__version__ = "0.1.0"
__all__ = [
    "Confidence",
    "Edit",
    "Finding",
    "Fix",
    "Related",
    "Result",
    "Seen",
    "Severity",
    "SourceError",
    "Span",
    "UserError",
    "check_paths",
    "check_source",
]
_OF_FINDINGS = ("Confidence", "Edit", "Finding", "Fix", "Related", "Seen", "Severity", "SourceError")
_HOMES = {
    **dict.fromkeys(("Result", "check_paths", "check_source"), "api"),
    **dict.fromkeys(_OF_FINDINGS, "finding"),
    "Span": "source",
    "UserError": "errors",
}


def __getattr__(name: str) -> object:
    """Import what is asked for: ``streamlint --version`` needs none of it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
