"""nccl4py, the bindings of NCCL: communication on a stream that each call is told.

Without one it runs on the default stream (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/nccl4py.html).
What is called in a group is queued when the group ends.
"""

from __future__ import annotations

from streamlint.models.schema import (
    Api,
    Framework,
    GroupEnds,
    GroupStarts,
    Lib,
    Makes,
    OrdersAll,
    Pure,
    Uses,
)

_COMM = "Communicator()"
_KEPT = "nccl.core.Communicator()"


def _call(name: str, params: str, reads: str = "", writes: str = "") -> Api:
    """Communication on ``stream``, which is given by its name."""
    uses = Uses(tuple(reads.split()), tuple(writes.split()), stream="stream", grouped=True)
    return Api(f"{_COMM}.{name}", f"{params} stream", (uses,))


_BOTH = {"reads": "sendbuf", "writes": "recvbuf"}

NCCL = Framework(
    lib=Lib.NCCL,
    url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/nccl4py.html",
    modules=("nccl.core",),
    functions=(
        Api("Communicator", "ptr", (Makes(_KEPT),)),
        Api("Communicator.init", "nranks rank unique_id config", (Makes(_KEPT),)),
        _call("allreduce", "sendbuf recvbuf op", **_BOTH),
        _call("broadcast", "sendbuf recvbuf root", **_BOTH),
        _call("reduce", "sendbuf recvbuf op root", **_BOTH),
        _call("allgather", "sendbuf recvbuf", **_BOTH),
        _call("reduce_scatter", "sendbuf recvbuf op", **_BOTH),
        _call("alltoall", "sendbuf recvbuf", **_BOTH),
        _call("gather", "sendbuf recvbuf root", **_BOTH),
        _call("scatter", "sendbuf recvbuf root", **_BOTH),
        _call("send", "sendbuf peer", reads="sendbuf"),
        _call("recv", "recvbuf peer", writes="recvbuf"),
        Api(f"{_COMM}.split", "color key config", (Makes(_KEPT),)),
        Api(f"{_COMM}.finalize", "", (OrdersAll(),)),
        Api(f"{_COMM}.destroy", "", (OrdersAll(),)),
        Api(f"{_COMM}.abort", "", (OrdersAll(),)),
        Api("get_unique_id", "", (Pure(),)),
        Api("group", "", (GroupStarts(block=True),)),
        Api("group_start", "", (GroupStarts(),)),
        Api("group_end", "simulate", (GroupEnds(),)),
    ),
)
