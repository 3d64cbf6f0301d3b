"""What is measured, and what came out of it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.doctor.lab import Lab

    Measure: TypeAlias = Callable[[Lab], str]
    """Makes one experiment and says what was seen, in the words of ``Axiom.expected``."""

ORDERED: Final = "ordered"
UNORDERED: Final = "not ordered"
WAITS: Final = "waits"
RETURNS: Final = "returns at once"


class Basis(Enum):
    """Why the model believes it: the marks of docs/semantics.md."""

    GUARANTEED = "guaranteed"
    """Documented by CUDA or by the library."""
    MEASURED = "measured"
    """The model relies on it, and only measurements say so."""
    OBSERVED = "observed"
    """Measured, promised nowhere, and never a reason to call code safe."""


@frozen()
class Axiom:
    """One fact that the model rests on, and how to measure it.

    ``law`` is the first cell of a row of docs/semantics.md, without markup, and ``case`` tells
    experiments of one law apart.
    """

    law: str
    expected: str
    basis: Basis
    measure: Measure
    case: str = ""
    devices: int = 1


@frozen()
class Group:
    """Axioms under one heading of docs/semantics.md that need the same ``library``, if any."""

    section: str
    axioms: tuple[Axiom, ...]
    library: str = ""
    """A module to import before the first experiment; without it none is made."""


class Verdict(Enum):
    HOLDS = "holds"
    FAILS = "fails"
    NOT_TESTED = "not tested"


@frozen()
class Result:
    """``measured`` is what was seen, or why nothing could be."""

    verdict: Verdict
    measured: str
    seconds: float = 0.0


class SkippedError(Exception):
    """The experiment cannot be made on this machine; the text says why."""
