"""Mooncake's transfer engine: a network card reads or writes GPU memory by its address, and heeds no stream.

A synchronous call has moved the data when it returns; others give the numbers of what was submitted,
which are asked about.
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.schema import Api, Background, Framework, HostWaitsEvent, Lib, Queries, Succeeds

_TO = "target_hostname buffer peer_buffer_address length"
_ALL_TO = "target_hostname buffers peer_buffer_addresses lengths"
_WORKED = Succeeds(0)


def _calls(side: str, one: Background, several: Background) -> tuple[Api, ...]:
    return (
        Api(f"transfer_sync_{side}", _TO, (replace(one, waits=True), _WORKED), telling=()),
        Api(f"batch_transfer_sync_{side}", _ALL_TO, (replace(several, waits=True), _WORKED), telling=()),
        Api(f"transfer_submit_{side}", _TO, (one,), telling=()),
        Api(f"batch_transfer_async_{side}", _ALL_TO, (several,), telling=()),
    )


# What is written is the memory of the other side.
_WRITE = (Background(reads=("buffer",), only_gpu=True), Background(reads=("buffers",), only_gpu=True))
_READ = (Background(writes=("buffer",), only_gpu=True), Background(writes=("buffers",), only_gpu=True))

MOONCAKE = Framework(
    lib=Lib.MOONCAKE,
    url="https://kvcache-ai.github.io/Mooncake/python-api-reference/transfer-engine.html",
    modules=("mooncake.engine",),
    functions=(),
    object_methods=(
        *_calls("write", *_WRITE),
        *_calls("read", *_READ),
        Api("get_batch_transfer_status", "batch_ids", (HostWaitsEvent("batch_ids"),), telling=()),
        Api("transfer_check_status", "batch_id", (Queries("batch_id"),), telling=()),
    ),
)
