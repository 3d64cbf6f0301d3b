"""Triton's language: what its functions do with pointers.

https://triton-lang.org/main/python-api/triton.language.html
"""

from __future__ import annotations

KERNEL_DECORATORS = frozenset({"triton.jit"})
MAKES_KERNELS = frozenset({"jit", "kernel"})
"""What languages of kernels that no table has call their decorators: ``@cute.kernel``, ``@flyc.jit``."""

MAKES_POINTER = frozenset(
    "make_block_ptr make_tensor_descriptor advance to broadcast_to expand_dims multiple_of "
    "max_contiguous".split()
)
"""Functions and methods that make a pointer of others."""

RANGES = frozenset({"range", "arange"})
"""Functions that give as many numbers as there are threads, from the first argument on."""
ACCESSES = frozenset({"load", "store"})
ADDITIONS = frozenset({"atomic_add"})
"""Atomic operations that come to the same in any order."""
MAKES_BLOCK = "make_block_ptr"
PLACES_BLOCK = ("base", "offsets")
"""The parameters of it that say where the block lies."""

HARMLESS = frozenset("range min max int float bool len abs print static_range".split())
"""Functions by plain names, of Python and of Triton, that touch no memory."""
