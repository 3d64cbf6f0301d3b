"""DALI: what a pipeline gives is copied into memory of other libraries, on the stream that is named.

``copy_to_external`` waits for the copy unless it is told not to
(https://github.com/NVIDIA/DALI/blob/main/dali/python/backend_impl.cc). Where no stream is named it takes one
of DALI's own, which waits for no other: what was queued on the target before, as the fill of ``torch.zeros``,
may come after it (documentation of ``feed_ndarray``). ``feed_ndarray`` waits only where no stream is named
(https://github.com/NVIDIA/DALI/blob/main/dali/python/nvidia/dali/plugin/pytorch/torch_utils.py).
A pipeline without the dynamic executor, which recent releases use unless told otherwise, writes the next
batch where the outputs were that it was told to take back
(https://docs.nvidia.com/deeplearning/dali/user-guide/docs/advanced_topics_pipe_run.html).
What a pipeline is fed is copied on the stream that is named, too, and so is what it asks a source for, with
several batches under way (documentation of ``nvidia.dali.fn.external_source``).
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.schema import Api, Draws, Fills, Framework, Lends, Lib, Makes, TakesBack, Uses

_OUT = Fills("arr", "cuda_stream", unless=None)

_PIPELINE = Makes("nvidia.dali.Pipeline()", ("exec_dynamic",), alone=True)

MAKES_PIPELINES = frozenset({"nvidia.dali.pipeline_def", "nvidia.dali.pipeline.pipeline_def"})
"""Decorators of functions of which a call gives a pipeline; both take the options of one."""

EXTERNAL_SOURCE = "external_source"

VIEWS = frozenset(
    "as_tensor as_array as_shape as_reshaped_tensor at _expose_dlpack_capsule __dlpack__".split()
)
"""What is got from an output is a part of it; anything else is known on the host."""

DALI = Framework(
    lib=Lib.DALI,
    url="https://docs.nvidia.com/deeplearning/dali/user-guide/docs/plugins/pytorch_plugin_api.html",
    modules=(
        *("nvidia.dali.plugin.pytorch", "nvidia.dali.plugin.pytorch.torch_utils"),
        *("nvidia.dali", "nvidia.dali.pipeline", "nvidia.dali.fn"),
    ),
    functions=(
        Api("feed_ndarray", "dali_tensor arr cuda_stream", (_OUT,)),
        Api(
            EXTERNAL_SOURCE,
            "source num_outputs *options cuda_stream no_copy",
            (Draws("source", "cuda_stream", unless="no_copy"),),
        ),
        Api("Pipeline", "*options exec_dynamic", (_PIPELINE,)),
    ),
    told_with=("nvidia",),
    object_methods=(
        Api("share_outputs", "cuda_stream", (Lends(),), telling=()),
        Api("release_outputs", "", (TakesBack(unless="self.exec_dynamic"),), telling=()),
        Api(
            "copy_to_external",
            "ptr cuda_stream non_blocking use_copy_kernel",
            (replace(_OUT, what="ptr", unless="non_blocking"),),
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
