"""NIXL: a network card reads or writes GPU memory that it was told of, and heeds no stream.

A request is prepared, started by ``transfer``, and asked about. Whether it reads or writes the memory of this
side says its first argument (https://github.com/ai-dynamo/nixl/blob/main/src/api/python/_api.py).
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.aside import Equals
from streamlint.models.schema import Api, Background, Framework, Lib, Makes, Pure, Queries, Returns

_REQUEST = "nixl.a request"
_MOVES = Background(only_gpu=True, at="handle.local_indices", ends="handle")
_STATE = Queries("handle", told_by=("DONE", "PROC"))
_MEMORY = "handle.local_descs/local_xfer_side"

NIXL = Framework(
    lib=Lib.NIXL,
    url="https://docs.nvidia.com/nixl/getting-started/quick-start.md",
    modules=("nixl",),
    functions=(),
    told_with=("nixl",),
    object_methods=(
        Api("get_xfer_descs", "descs mem_type", (Returns("descs"),), telling=()),
        Api("get_reg_descs", "descs mem_type", (Returns("descs"),), telling=()),
        Api("register_memory", "reg_list mem_type backends", (Returns("reg_list"),), telling=()),
        Api("prep_xfer_dlist", "agent_name xfer_list mem_type backends", (Returns("xfer_list"),), telling=()),
        Api(
            "initialize_xfer",
            "operation local_descs remote_descs remote_agent notif_msg backends skip_desc_merge",
            (Makes(_REQUEST, ("operation", "local_descs")),),
            telling=(),
        ),
        Api(
            "make_prepped_xfer",
            "operation local_xfer_side local_indices remote_xfer_side remote_indices notif_msg backends "
            "skip_desc_merge",
            (Makes(_REQUEST, ("operation", "local_xfer_side", "local_indices")),),
            telling=(),
        ),
        Api(
            "transfer",
            "handle notif_msg",
            (
                replace(_MOVES, reads=(_MEMORY,), when=Equals("handle.operation", "WRITE")),
                replace(_MOVES, writes=(_MEMORY,), when=Equals("handle.operation", "READ")),
                _STATE,
            ),
            telling=(),
        ),
        Api("check_xfer_state", "handle", (_STATE,), telling=()),
        Api("release_xfer_handle", "handle", (Pure(),), telling=()),
    ),
)
