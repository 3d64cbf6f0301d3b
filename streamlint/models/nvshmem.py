"""nvshmem4py: memory that all processes have, copied from one to another on the stream that a call is given.

All ranks make the same calls, so what one puts into the memory of another, it gets into its own. Who reads
that waits for the stream, behind a barrier on it
(https://docs.nvidia.com/nvshmem/api/latest/api/language_bindings/python/rma.html).
"""

from __future__ import annotations

from streamlint.models.schema import Allocates, Api, Framework, Lib, OrdersNothing, Pure, Uses
from streamlint.trace import Space

_COLLECTIVE = "team dst_array src_array"


def _moves(name: str, params: str, dst: str, src: str) -> Api:
    return Api(
        name, f"{params} stream", (Uses(reads=(src,), writes=(dst,), stream="stream", on_device=True),)
    )


def _collective(name: str, further: str = "") -> Api:
    return _moves(name, f"{_COLLECTIVE} {further}".strip(), "dst_array", "src_array")


NVSHMEM = Framework(
    lib=Lib.NVSHMEM,
    url="https://docs.nvidia.com/nvshmem/api/latest/api/language_bindings/python/collectives.html",
    modules=("nvshmem.core", "nvshmem.core.collective", "nvshmem.core.rma"),
    functions=(
        Api("tensor", "shape dtype", (Allocates(Space.DEVICE, lib=Lib.TORCH),)),
        Api("array", "shape dtype", (Allocates(Space.DEVICE, lib=Lib.CUPY),)),
        _moves("put", "dst src remote_pe", "dst", "src"),
        _moves("get", "dst src remote_pe", "dst", "src"),
        _moves("put_signal", "dst src signal_var signal_val signal_operation remote_pe", "dst", "src"),
        _collective("reduce", "op"),
        _collective("reducescatter", "op"),
        _collective("broadcast", "root"),
        _collective("fcollect"),
        _collective("alltoall"),
        Api("signal_wait", "signal_var signal_val signal_operation stream", (OrdersNothing(),)),
        Api("barrier", "team stream", (OrdersNothing(),)),
        Api("barrier_all", "stream", (OrdersNothing(),)),
        Api("sync", "team stream", (OrdersNothing(),)),
        Api("sync_all", "stream", (OrdersNothing(),)),
        Api("quiet", "stream", (OrdersNothing(),)),
        Api("my_pe", "", (Pure(),)),
        Api("n_pes", "", (Pure(),)),
    ),
)
