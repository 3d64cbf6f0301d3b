"""What operators of PyTorch do with their operand: give it back as it is, convert it, keep it for backward.

https://docs.pytorch.org/docs/stable/tensor_attributes.html and the pages of the operators.
"""

from __future__ import annotations

from streamlint.trace import Makes

CONVERTS_TO = {
    "float": "torch.float32",
    "double": "torch.float64",
    "half": "torch.float16",
    "bfloat16": "torch.bfloat16",
    "long": "torch.int64",
    "int": "torch.int32",
    "bool": "torch.bool",
}
"""What ``x.float()`` and its kin convert to."""

DTYPES = {
    "torch.float": "torch.float32",
    "torch.double": "torch.float64",
    "torch.half": "torch.float16",
    "torch.long": "torch.int64",
    "torch.int": "torch.int32",
}
"""Types of elements that have two names."""

CONVERSIONS = frozenset({*CONVERTS_TO, "to(dtype)", "type", "type_as"})
"""Operators that give back their operand where it is of that type already: ``x.half() is x``."""

MAY_RETURN_OPERAND = CONVERSIONS | frozenset(
    "contiguous to cuda cpu expand_as reshape flatten ravel asarray asanyarray ascontiguousarray "
    "broadcast_to conj resolve_conj astype(copy=False)".split()
)
"""Operators that give back their operand where there is nothing to do: ``x.contiguous() is x``."""

FILLS_GAPS = frozenset({"contiguous", "ascontiguousarray"})
"""... and those that copy what has gaps between its elements."""

_COPIES = frozenset({"clone", "pin_memory", "detach"})


def makes(name: str) -> Makes:
    """What an operator makes of its operand."""
    if name in CONVERSIONS:
        return Makes.CONVERTED
    if name in MAY_RETURN_OPERAND:
        return Makes.AS_IT_IS
    return Makes.COPY if name in _COPIES else Makes.VALUES


_NUMBERS = frozenset({"alpha", "beta"})
_OF_PRODUCTS = frozenset("addcmul addcmul_ addcdiv addcdiv_".split())


def takes_number(name: str, parameter: str) -> bool:
    """Whether an operator has a number there, and calls ``item()``, which waits, on a tensor that it gets.

    ``m.add_(g, alpha=1 - beta)``, ``w.addcdiv_(m, v, value=-lr)``: they are ``Scalar`` in
    https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml
    """
    return parameter in _NUMBERS or (parameter == "value" and name in _OF_PRODUCTS)


COPIES = frozenset("to cpu cuda pin_memory copy_ numpy".split())
"""Methods that copy between memories, or give back the tensor where it is there already."""
ALONG = frozenset({"narrow", "select"})
"""Methods that give a part along one dimension: its number, and where it begins."""
COUNTS = frozenset({"numel", "nelement"})
FIELDS_OF_PAIRS = frozenset({"values", "indices"})
GIVES_PAIRS = frozenset("topk sort max min median nanmedian mode kthvalue cummax cummin".split())
"""Operators that give a named tuple of two tensors, and its fields
(https://docs.pytorch.org/docs/stable/generated/torch.topk.html)."""
ON_CPU = {"is_cuda": False, "is_cpu": True}
"""Attributes of tensors and devices, and what they answer where the memory is the host's."""

CAPTURES_BY_HAND = {"capture_begin": True, "capture_end": False}
"""Methods of ``torch.cuda.CUDAGraph``, and whether the capture of the current stream begins:
https://docs.pytorch.org/docs/stable/generated/torch.cuda.CUDAGraph.html"""

SAVES_NOTHING = frozenset(
    "add sub sum mean cat stack clone copy_ neg zeros_like ones_like empty_like empty full_like roll flip "
    "pad indexing repeat index_select gather split backward to(copy=True) cumsum tril triu rot90 trace diff "
    "floor ceil round sign argmax argmin argsort sort topk nonzero isnan isinf isfinite eq ne lt gt le "
    "ge".split()
) | {"operator +", "operator -", "operator ==", "operator <", "operator >", "operator !="}
"""Operators whose backward needs no operand, so that autograd keeps none alive: what they save are shapes,
types, indices or nothing (https://github.com/pytorch/pytorch/blob/main/tools/autograd/derivatives.yaml)."""


def saves(name: str) -> bool:
    """Whether autograd may keep the operands of an operator alive for its backward."""
    return name not in SAVES_NOTHING


def is_nonzero(name: str, arguments: int) -> bool:
    """Whether it is ``nonzero`` by another name: ``torch.where(x > 0)``, with nothing to choose from."""
    return name == "where" and arguments == 1
