"""ONNX Runtime: a session runs on streams of its own, and uses memory that a binding was told of by address.

A run waits for itself, but for nothing before it, unless the session was given a stream. A binding can wait
for its inputs (https://github.com/microsoft/onnxruntime/pull/9823). An ``OrtValue`` that comes by DLPack is
the same memory.
"""

from __future__ import annotations

from streamlint.models.schema import Api, Background, Binds, Framework, HostWaitsDevice, Lib, Views

_BINDING = "name device_type device_id element_type shape buffer_ptr"

ONNX = Framework(
    lib=Lib.ONNX,
    url="https://onnxruntime.ai/docs/performance/tune-performance/iobinding.html",
    modules=("onnxruntime",),
    functions=(Api("OrtValue.from_dlpack", "data", (Views("data"),)),),
    told_with=("onnxruntime",),
    object_methods=(
        Api("bind_input", _BINDING, (Binds("name", "buffer_ptr"),), telling=()),
        Api("bind_output", _BINDING, (Binds("name", "buffer_ptr"),), telling=()),
        Api("bind_ortvalue_input", "name ortvalue", (Binds("name", "ortvalue"),), telling=()),
        Api("bind_ortvalue_output", "name ortvalue", (Binds("name", "ortvalue"),), telling=()),
        Api("synchronize_inputs", "", (HostWaitsDevice(),), telling=()),
        Api("synchronize_outputs", "", (HostWaitsDevice(),), telling=()),
        Api(
            "run_with_iobinding",
            "iobinding run_options",
            (Background(bound="iobinding", waits=True, only_gpu=True),),
            telling=(),
        ),
    ),
)
STREAM_OPTION = "user_compute_stream"
"""An option of a session's providers: with it the session runs on that stream."""
