"""What PyTorch's operators do to memory, read from their schemas.

A schema says which arguments an operator writes (``Tensor(a!)``) and which results are views
(``Tensor(a)``). The sets below are what schemas do not say.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from streamlint.frozen import frozen
from streamlint.models.torch import LIKE_FACTORIES, NEW_METHODS, UNFILLED
from streamlint.trace import Mode


class Special(Enum):
    """Operators that are more than device work."""

    NONE = "device work"
    COPY = "copy into a tensor"
    TO = "copy to a new tensor"
    ITEM = "value for the host"
    KEEP = "record_stream"
    COLLECTIVE = "communication of a process group"


NO_ACCESS = frozenset(
    "_unsafe_view _reshape_alias lift lift_fresh detach_ set_ resize_ resize_as_ _resize_output_ is_pinned "
    "_conj _neg_view sym_size sym_stride sym_numel sym_storage_offset is_same_size _backward "
    "_record_function_enter_new _record_function_exit size stride storage_offset numel is_contiguous "
    "_has_same_storage_numel is_nonzero_meta".split()
)
"""Only metadata; the schema of ``_unsafe_view`` does not tell that it is a view."""

FILLS = frozenset(
    "fill_ zero_ copy_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ "
    "eye arange linspace logspace".split()
)
"""Operators that overwrite what they change and do not look at it."""

_SPECIAL = {
    "copy_": Special.COPY,
    "_to_copy": Special.TO,
    "_local_scalar_dense": Special.ITEM,
    "record_stream": Special.KEEP,
}


_GROUPS = ("c10d::", "_c10d_functional::")
"""Operators of process groups. Those of the first say what they do by names alone."""

_ASYNCHRONOUS = "async_op"


@frozen()
class Operator:
    """What one operator does to the tensors among its arguments, and to its results."""

    name: str
    positional: tuple[tuple[int, Mode], ...]
    """The positions of arguments that it touches."""
    keywords: tuple[tuple[str, Mode], ...]
    """The names of arguments that it touches; those with a position can be given by name too."""
    fills_result: bool
    special: Special = Special.NONE
    flag: int = -1
    """Of a collective: the position of the argument that leaves the wait for it to the program."""


def operator_of(schema: Any) -> Operator | None:  # torch.FunctionSchema
    """Read a schema; None for an operator that touches no memory and allocates none."""
    if str(schema.name).startswith(_GROUPS):
        return _collective(schema)
    name = str(schema.name).rpartition("::")[2]
    special = _SPECIAL.get(name, Special.NONE)
    if name in NO_ACCESS or str(schema.name).startswith(("prim::", "profiler::")):
        return None
    factory = (
        name in LIKE_FACTORIES or name in NEW_METHODS or name.startswith("new_") or name.endswith("_like")
    )
    modes = [(argument, _mode(argument, name, factory=factory)) for argument in schema.arguments]
    results = [result for result in schema.returns if "Tensor" in str(result.type)]
    fills = name not in UNFILLED and any(result.alias_info is None for result in results)
    makes = any(result.alias_info is None for result in results)
    if not makes and special is Special.NONE and all(mode is None for _, mode in modes):
        return None
    touched = [(number, arg, mode) for number, (arg, mode) in enumerate(modes) if mode is not None]
    positional = tuple((number, mode) for number, arg, mode in touched if not arg.kwarg_only)
    return Operator(name, positional, tuple((arg.name, mode) for _, arg, mode in touched), fills, special)


def _collective(schema: Any) -> Operator:
    """``allgather_(Tensor[][] output_tensors, Tensor[] input_tensors)``, ``allreduce_(Tensor[] tensors)``."""
    name = str(schema.name).rpartition("::")[2]
    tensors = [(i, arg) for i, arg in enumerate(schema.arguments) if "Tensor" in str(arg.type)]
    flags = [i for i, arg in enumerate(schema.arguments) if arg.name == _ASYNCHRONOUS]
    return Operator(
        name,
        tuple((number, _collective_mode(name, arg)) for number, arg in tensors),
        (),
        any("Tensor" in str(result.type) and result.alias_info is None for result in schema.returns),
        Special.COLLECTIVE,
        flags[0] if flags else -1,
    )


def _collective_mode(name: str, argument: Any) -> Mode:
    if argument.alias_info is not None and argument.alias_info.is_write:
        return Mode.WRITE if argument.is_out else Mode.UPDATE
    if argument.name.startswith("output"):
        return Mode.WRITE
    # `recv_(tensors)` and `allreduce_(tensors)` change them, `send(tensors)` does not.
    return Mode.UPDATE if name.endswith("_") and not argument.name.startswith("input") else Mode.READ


def is_view(schema: Any) -> bool:
    """Whether all that an operator does is to give another look at its argument."""
    aliases = [argument.alias_info for argument in (*schema.arguments, *schema.returns)]
    results = [result.alias_info for result in schema.returns]
    changes = any(alias is not None and alias.is_write for alias in aliases)
    return bool(results) and not changes and all(alias is not None for alias in results)


def _mode(argument: Any, operator: str, *, factory: bool) -> Mode | None:
    if "Tensor" not in str(argument.type):
        return None
    alias = argument.alias_info
    if alias is None:
        return None if factory else Mode.READ
    if not alias.is_write:
        return None
    overwrites = argument.is_out or operator in FILLS
    return Mode.WRITE if overwrites else Mode.UPDATE
