"""``torch.distributed``: collectives, and what waiting for one means.

A collective with ``async_op=True`` runs on a stream of its process group: it starts after what is
queued on the current stream, and only ``work.wait()`` makes the current stream wait for it. On
device tensors that does not block the host (docs/semantics). Without the flag, and after ``send``
and ``recv``, which wait for the handles of ``isend`` and ``irecv``, the current stream has waited
when the call returns.

The future of a handle (``get_future()``) is done as soon as the collective is queued, and its ``value()``
waits for nothing (https://docs.pytorch.org/docs/stable/futures.html#torch.futures.Future.value).

The functional collectives give memory of their own at once, which nobody may use before ``wait_tensor()`` has
made the current stream wait (torch/csrc/distributed/c10d/Functional.cpp). Those of
``torch.distributed._functional_collectives`` wrap it in a tensor that waits when it is first used: no rows.
"""

from __future__ import annotations

from streamlint.models.schema import (
    Api,
    CallsAll,
    Coalesces,
    Communicates,
    Defers,
    Framework,
    GivesWritten,
    Lib,
    OrdersAll,
    Pure,
    Queries,
    Returns,
    StreamWaitsEvent,
    WaitsForResult,
)

_WAIT = (StreamWaitsEvent("self", None),)

DISTRIBUTED = Framework(
    lib=Lib.DISTRIBUTED,
    url="https://docs.pytorch.org/docs/stable/distributed.html",
    modules=("torch.distributed", "torch.distributed.distributed_c10d"),
    functions=(
        Api("all_reduce", "tensor op group async_op", (Communicates(updates=("tensor",)),)),
        Api("broadcast", "tensor src group async_op", (Communicates(updates=("tensor",), source="src"),)),
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
        Api("_coalescing_manager", "group device async_ops", (Coalesces("group", "async_ops"),)),
        Api("barrier", "group async_op device_ids", (OrdersAll(),)),
        Api("monitored_barrier", "group timeout", (OrdersAll(),)),
    ),
    event_methods=(
        Api("wait", "timeout", _WAIT),
        Api("synchronize", "", _WAIT),
        Api("block_current_stream", "", _WAIT),
        Api("is_completed", "", (Queries(),)),
        Api("get_future", "", (Returns("self"),)),
        # Of a future: it is done when the collective is queued, and its value waits for nothing.
        Api("done", "", (Pure(),)),
        Api("value", "", (GivesWritten(),)),
        Api("source_rank", "", (Pure(),)),
    ),
)


def _gives(*operands: str, updates: bool = False) -> tuple[Communicates | Returns, ...]:
    """What an operator does: ``all_reduce_(x)`` works in place, and gives ``x``."""
    if updates:
        return (Communicates(updates=operands, group="group_name", flag=None), Returns(operands[0]))
    return (Communicates(reads=operands, group="group_name", flag=None, makes=operands[0]),)


FUNCTIONAL = Framework(
    lib=Lib.FUNCTIONAL,
    url="https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/Functional.cpp",
    modules=("torch.ops._c10d_functional",),
    functions=(
        Api("all_reduce", "input reduce_op group_name", _gives("input")),
        Api("all_reduce_", "input reduce_op group_name", _gives("input", updates=True)),
        Api("broadcast", "input src group_name", _gives("input")),
        Api("broadcast_", "input src group_name", _gives("input", updates=True)),
        Api("all_gather_into_tensor", "input group_size group_name", _gives("input")),
        Api(
            "all_gather_into_tensor_out",
            "input group_size group_name out",
            (
                Communicates(reads=("input",), writes=("out",), group="group_name", flag=None),
                Returns("out"),
            ),
        ),
        Api("all_reduce_coalesced", "inputs reduce_op group_name", _gives("inputs")),
        Api("all_reduce_coalesced_", "inputs reduce_op group_name", _gives("inputs", updates=True)),
        Api("all_gather_into_tensor_coalesced", "inputs group_size group_name", _gives("inputs")),
        Api("reduce_scatter_tensor_coalesced", "inputs reduce_op group_size group_name", _gives("inputs")),
        Api("reduce_scatter_tensor", "input reduce_op group_size group_name", _gives("input")),
        Api("all_to_all_single", "input output_split_sizes input_split_sizes group_name", _gives("input")),
        Api("wait_tensor", "tensor", (WaitsForResult("tensor"),)),
    ),
)
