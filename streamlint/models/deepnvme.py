"""DeepNVMe: files read into pinned or GPU memory, and written from it, by threads that heed no stream.

The calls without ``sync`` return at once; ``handle.wait()`` waits for all that was started.
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.schema import Api, Background, Framework, Lib

_READS = Background(writes=("buffer",), only_gpu=True)
_WRITES = Background(reads=("buffer",), only_gpu=True)
_WHAT = "buffer filename file_offset"

DEEPNVME = Framework(
    lib=Lib.DEEPNVME,
    url="https://www.deepspeed.ai/tutorials/deepnvme/",
    modules=("deepspeed.ops.op_builder",),
    functions=(),
    object_methods=(
        Api("async_pread", _WHAT, (_READS,), telling=()),
        Api("async_pwrite", _WHAT, (_WRITES,), telling=()),
        Api("sync_pread", _WHAT, (replace(_READS, waits=True),), telling=()),
        Api("sync_pwrite", _WHAT, (replace(_WRITES, waits=True),), telling=()),
    ),
)
