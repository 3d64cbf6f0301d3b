"""DALI: what a pipeline gives is copied into memory of other libraries, on the stream that is named.

The call waits for the copy unless it is told not to
(https://github.com/NVIDIA/DALI/blob/main/dali/python/backend_impl.cc, ``copy_to_external``).
What a pipeline is fed is copied on the stream that is named, too
(documentation of ``nvidia.dali.fn.external_source``).
"""

from __future__ import annotations

from streamlint.models.schema import Api, Copies, Framework, Lib, Uses

_OUT = Copies("arr", "dali_tensor", "cuda_stream", blocking=True, unless="non_blocking")

DALI = Framework(
    lib=Lib.DALI,
    url="https://docs.nvidia.com/deeplearning/dali/user-guide/docs/plugins/pytorch_plugin_api.html",
    modules=("nvidia.dali.plugin.pytorch",),
    functions=(Api("feed_ndarray", "dali_tensor arr cuda_stream non_blocking", (_OUT,)),),
    object_methods=(
        Api(
            "copy_to_external",
            "ptr cuda_stream non_blocking use_copy_kernel",
            (Copies("ptr", "self", "cuda_stream", blocking=True, unless="non_blocking"),),
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
