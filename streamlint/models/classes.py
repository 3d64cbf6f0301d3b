"""What objects of a library's classes are, as annotations, ``isinstance`` and bases name them."""

from __future__ import annotations

PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
"""They have the memory of their data:
https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html"""

TENSORS = frozenset(
    {"torch.Tensor", "torch._tensor.Tensor"}
    | PARAMETERS
    | {f"{module}.UninitializedParameter" for module in ("torch.nn", "torch.nn.parameter")}
)
"""https://docs.pytorch.org/docs/stable/tensors.html; parameters are tensors that stand among modules."""

HOST_ARRAYS = frozenset({"numpy.ndarray"})
"""https://numpy.org/doc/stable/reference/arrays.ndarray.html"""
DEVICE_ARRAYS = frozenset({"cupy.ndarray"})
"""https://docs.cupy.dev/en/stable/reference/ndarray.html"""
ARRAYS = "warp.array"
"""How the names of Warp's begin, which may be on the host: ``wp.array2d(dtype=float)``."""

PLAIN = frozenset({"device", "dtype", "ProcessGroup", "Generator"})
"""Classes of ``torch`` whose objects are no memory."""
