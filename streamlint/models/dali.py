"""DALI: what a pipeline gives is copied into memory of other libraries, on the stream that is named.

The call waits for the copy unless it is told not to
(https://github.com/NVIDIA/DALI/blob/main/dali/python/backend_impl.cc, ``copy_to_external``). Where no
stream is named it takes one of DALI's own, which waits for no other: what was queued on the target before, as
the fill of ``torch.zeros``, may come after it (documentation of ``feed_ndarray``).
What a pipeline is fed is copied on the stream that is named, too
(documentation of ``nvidia.dali.fn.external_source``).
"""

from __future__ import annotations

from dataclasses import replace

from streamlint.models.schema import Api, Fills, Framework, Lib, Uses

_OUT = Fills("arr", "cuda_stream", unless="non_blocking")

DALI = Framework(
    lib=Lib.DALI,
    url="https://docs.nvidia.com/deeplearning/dali/user-guide/docs/plugins/pytorch_plugin_api.html",
    modules=("nvidia.dali.plugin.pytorch",),
    functions=(Api("feed_ndarray", "dali_tensor arr cuda_stream non_blocking", (_OUT,)),),
    object_methods=(
        Api(
            "copy_to_external",
            "ptr cuda_stream non_blocking use_copy_kernel",
            (replace(_OUT, what="ptr"),),
            telling=(),
        ),
        Api(
            "feed_input",
            "data_node data layout cuda_stream use_copy_kernel",
            # What is on the host is copied before the call returns.
            (Uses(reads=("data",), stream="cuda_stream", host_waits=True),),
            telling=(),
        ),
    ),
)
