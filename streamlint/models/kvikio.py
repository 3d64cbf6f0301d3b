"""KvikIO: files read into device memory, by threads that heed no stream, or in order of a stream.

Calls of a ``CuFile`` without a stream synchronize the legacy default stream first (``sync_default_stream``
in ``kvikio/file_handle.hpp``), and no other one.
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.schema import (
    Api,
    Background,
    Framework,
    HostWaitsEvent,
    Lib,
    Makes,
    Queries,
    Records,
    Uses,
)

_READS = Background(writes=("buf",), after_default=True)
_WRITES = Background(reads=("buf",), after_default=True)
_READ = replace(_READS, waits=True)
_WRITE = replace(_WRITES, waits=True)
_WHERE = "buf size file_offset task_size"
_QUEUED = "buf raw_stream size file_offset dev_offset"
_TAIL = Records("", "raw_stream")
"""What these calls return is waited for by `check_bytes_done()`, which synchronizes the stream."""

KVIKIO = Framework(
    lib=Lib.KVIKIO,
    url="https://docs.rapids.ai/api/kvikio/stable/api/",
    modules=("kvikio", "kvikio.cufile"),
    functions=(
        Api("CuFile", "file flags", (Makes("kvikio.CuFile()"),)),
        Api("CuFile().pread", _WHERE, (_READS,)),
        Api("CuFile().pwrite", _WHERE, (_WRITES,)),
        Api("CuFile().read", _WHERE, (_READ,)),
        Api("CuFile().write", _WHERE, (_WRITE,)),
        Api("CuFile().raw_read", "buf size", (_READ,)),
        Api("CuFile().raw_write", "buf size", (_WRITE,)),
        Api("CuFile().raw_read_async", _QUEUED, (Uses(writes=("buf",), stream="raw_stream"), _TAIL)),
        Api("CuFile().raw_write_async", _QUEUED, (Uses(reads=("buf",), stream="raw_stream"), _TAIL)),
        Api("RemoteFile.open", "url", (Makes("kvikio.RemoteFile()"),)),
        Api("RemoteFile.open_http", "url nbytes", (Makes("kvikio.RemoteFile()"),)),
        Api("RemoteFile.open_s3_url", "url nbytes", (Makes("kvikio.RemoteFile()"),)),
        Api("RemoteFile().read", "buf size file_offset", (Background(writes=("buf",), waits=True),)),
        Api("RemoteFile().pread", "buf size file_offset", (Background(writes=("buf",)),)),
    ),
    event_methods=(
        Api("get", "", (HostWaitsEvent(),)),
        Api("done", "", (Queries(),)),
        Api("check_bytes_done", "", (HostWaitsEvent(),), telling=()),
    ),
)
