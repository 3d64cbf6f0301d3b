"""What can show on a GPU that a finding is real. Each rule declares one of these; ``confirm`` acts on it."""

from __future__ import annotations

from typing import TypeAlias

from streamlint.frozen import frozen


@frozen()
class ByValue:
    """A wrong value, where the earlier operation is held back."""

    names_earlier: bool = True
    """Whether the finding names the earlier operation; if not, each statement is held back in turn."""
    gpus: int = 1


@frozen()
class ByReuse:
    """A wrong value, where the last use is held back and the memory is handed out again meanwhile."""

    stale: bool = False
    """Whether the use comes after the free: nothing is held back, and the memory is handed out in between."""


@frozen()
class ByError:
    """The error of a CUDA call, with nothing held back."""

    codes: frozenset[int] = frozenset()
    """``cudaError_t`` values; those of the driver API are the same. Empty: any but "not ready"."""
    in_callback: bool = False
    """Whether the call stands in a host callback, where the program may not notice the error."""
    crash: bool = False
    """Whether the end of the process by a signal is the error: the host follows a device pointer."""
    gpus: int = 1


@frozen()
class ByLateError:
    """The error of a call that comes too early, where the earlier operation is held back."""

    codes: frozenset[int]


@frozen()
class ByDeadlock:
    """The program does not end."""


@frozen()
class ByTime:
    """The host waits in the place of the finding for work that is held back."""

    of_itself: bool = False
    """Whether the call waits for its own work, and not for what was queued before."""


@frozen()
class NoWitness:
    """Nothing that ``confirm`` can do shows it."""

    reason: str


Witness: TypeAlias = ByValue | ByReuse | ByError | ByLateError | ByDeadlock | ByTime | NoWitness

UNDECLARED = NoWitness("the rule declares no witness")


def gpus_of(witness: Witness) -> int:
    """How many GPUs it takes."""
    return witness.gpus if isinstance(witness, ByValue | ByError) else 1


def describe(witness: Witness) -> str:
    """One word for plans: what is looked for."""
    match witness:
        case ByValue() | ByReuse():
            return "value"
        case ByError() | ByLateError():
            return "error"
        case ByDeadlock():
            return "deadlock"
        case ByTime():
            return "time"
        case NoWitness(reason=reason):
            return f"none: {reason}"


def treatment(witness: Witness) -> str:
    """What is done to the earlier operation, or what it does: for tables."""
    return "gives memory back" if isinstance(witness, ByReuse) and witness.stale else "held back"
