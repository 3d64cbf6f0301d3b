"""``torch.distributed``: collectives, and what waiting for one means.

A collective with ``async_op=True`` runs on a stream of its process group: it starts after what is
queued on the current stream, and only ``work.wait()`` makes the current stream wait for it. On
device tensors that does not block the host (docs/semantics). Without the flag, and after ``send``
and ``recv``, which wait for the handles of ``isend`` and ``irecv``, the current stream has waited
when the call returns.
"""

from __future__ import annotations

from streamlint.models.schema import (
    Api,
    CallsAll,
    Communicates,
    Defers,
    Framework,
    Lib,
    OrdersAll,
    Pure,
    Queries,
    Returns,
    StreamWaitsEvent,
)

_WAIT = (StreamWaitsEvent("self", None),)

DISTRIBUTED = Framework(
    lib=Lib.DISTRIBUTED,
    url="https://docs.pytorch.org/docs/stable/distributed.html",
    modules=("torch.distributed", "torch.distributed.distributed_c10d"),
    functions=(
        Api("all_reduce", "tensor op group async_op", (Communicates(updates=("tensor",)),)),
        Api("broadcast", "tensor src group async_op", (Communicates(updates=("tensor",)),)),
        Api("reduce", "tensor dst op group async_op", (Communicates(updates=("tensor",)),)),
        Api(
            "all_gather",
            "tensor_list tensor group async_op",
            (Communicates(reads=("tensor",), writes=("tensor_list",)),),
        ),
        Api(
            "all_gather_into_tensor",
            "output_tensor input_tensor group async_op",
            (Communicates(reads=("input_tensor",), writes=("output_tensor",)),),
        ),
        Api(
            "_all_gather_base",
            "output_tensor input_tensor group async_op",
            (Communicates(reads=("input_tensor",), writes=("output_tensor",)),),
        ),
        Api(
            "reduce_scatter",
            "output input_list op group async_op",
            (Communicates(reads=("input_list",), writes=("output",)),),
        ),
        Api(
            "reduce_scatter_tensor",
            "output input op group async_op",
            (Communicates(reads=("input",), writes=("output",)),),
        ),
        Api(
            "_reduce_scatter_base",
            "output input op group async_op",
            (Communicates(reads=("input",), writes=("output",)),),
        ),
        Api(
            "all_to_all",
            "output_tensor_list input_tensor_list group async_op",
            (Communicates(reads=("input_tensor_list",), writes=("output_tensor_list",)),),
        ),
        Api(
            "all_to_all_single",
            "output input output_split_sizes input_split_sizes group async_op",
            (Communicates(reads=("input",), writes=("output",)),),
        ),
        Api(
            "gather",
            "tensor gather_list dst group async_op",
            (Communicates(reads=("tensor",), writes=("gather_list",)),),
        ),
        Api(
            "scatter",
            "tensor scatter_list src group async_op",
            (Communicates(reads=("scatter_list",), writes=("tensor",)),),
        ),
        Api(
            "send",
            "tensor dst group tag group_dst",
            (Communicates(reads=("tensor",), flag=None, handle=False),),
        ),
        Api(
            "recv",
            "tensor src group tag group_src",
            (Communicates(writes=("tensor",), flag=None, handle=False),),
        ),
        Api("isend", "tensor dst group", (Communicates(reads=("tensor",), flag=None),)),
        Api("irecv", "tensor src group", (Communicates(writes=("tensor",), flag=None),)),
        Api("P2POp", "op tensor peer group tag group_peer", (Defers("op"),)),
        Api("batch_isend_irecv", "p2p_op_list", (CallsAll("p2p_op_list"),)),
        Api("barrier", "group async_op device_ids", (OrdersAll(),)),
        Api("monitored_barrier", "group timeout", (OrdersAll(),)),
    ),
    event_methods=(
        Api("wait", "timeout", _WAIT),
        Api("synchronize", "", _WAIT),
        Api("block_current_stream", "", _WAIT),
        Api("is_completed", "", (Queries(),)),
        Api("get_future", "", (Returns("self"),)),
        Api("source_rank", "", (Pure(),)),
    ),
)
