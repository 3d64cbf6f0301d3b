"""JAX: its functions return before their work on the device is done, on streams that nobody else has.

What makes an array ready for others is a wait of the host, or the exchange by ``__dlpack__``
(https://docs.jax.dev/en/latest/async_dispatch.html). The work itself has no rows: what a function of JAX's
gives, or a compiled one, is taken to be written by an unseen call.
"""

from __future__ import annotations

from streamlint.models.schema import Api, Framework, HostWaitsMemory, Lib, Returns, Views

JAX = Framework(
    lib=Lib.JAX,
    url="https://docs.jax.dev/en/latest/_autosummary/jax.block_until_ready.html",
    modules=("jax",),
    functions=(Api("block_until_ready", "x", (HostWaitsMemory("x"), Returns("x"))),),
    object_methods=(
        Api("block_until_ready", "", (HostWaitsMemory("self"), Returns("self")), telling=()),
        Api("unsafe_buffer_pointer", "", (Views("self", address=True),), telling=()),
    ),
)

COMPILES = frozenset({"jax.jit", "jax.pmap"})
"""Decorators whose functions XLA compiles: what stands in them is traced, and not called."""
