"""UCX (ucxx, ucp): messages between processes, from and to GPU memory, which heed no stream.

What ``send`` gives is awaited, and the message is complete then. UCX copies by itself: the memory must have
been written before (https://github.com/dask/distributed/pull/3598).
"""

from __future__ import annotations

from streamlint.models.schema import Api, Background, Framework, Lib

_SENDS = (Background(reads=("buffer",), waits=True, only_gpu=True),)
_RECEIVES = (Background(writes=("buffer",), waits=True, only_gpu=True),)

UCX = Framework(
    lib=Lib.UCX,
    url="https://docs.rapids.ai/api/ucxx/stable/api/",
    modules=("ucxx", "ucp"),
    functions=(),
    told_with=("ucxx", "ucp"),
    object_methods=(
        Api("send", "buffer tag force_tag", _SENDS, telling=()),
        Api("am_send", "buffer", _SENDS, telling=()),
        Api("send_multi", "buffer tag force_tag", _SENDS, telling=()),
        Api("recv", "buffer tag force_tag", _RECEIVES, telling=()),
    ),
)
