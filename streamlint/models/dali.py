"""DALI: what a pipeline gives is copied into memory of other libraries, on the stream that is named.

The call waits for the copy unless it is told not to
(https://github.com/NVIDIA/DALI/blob/main/dali/python/backend_impl.cc, ``copy_to_external``).
"""

from __future__ import annotations

from streamlint.models.schema import Api, Copies, Framework, Lib

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
    ),
)
