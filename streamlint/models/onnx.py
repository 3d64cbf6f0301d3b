"""ONNX Runtime: a session runs on streams of its own, and uses memory that a binding was told of by address.

A run waits for itself, but for nothing before it. If the session was given a stream, it runs on that; with
the run option ``disable_synchronize_execution_providers`` it does not wait. A binding can wait for its inputs
(https://github.com/microsoft/onnxruntime/pull/9823). An ``OrtValue`` that comes by DLPack is the same memory.
"""

from __future__ import annotations

from streamlint.models.schema import Api, Background, Binds, Framework, HostWaitsDevice, Lib, Views
from streamlint.trace import Mode

_NO_WAIT = "disable_synchronize_execution_providers"
"""https://github.com/microsoft/onnxruntime/blob/main/include/onnxruntime/core/session/onnxruntime_run_options_config_keys.h"""
_BINDING = "name device_type device_id element_type shape buffer_ptr"

ONNX = Framework(
    lib=Lib.ONNX,
    url="https://onnxruntime.ai/docs/performance/tune-performance/iobinding.html",
    modules=("onnxruntime",),
    functions=(Api("OrtValue.from_dlpack", "data", (Views("data"),)),),
    told_with=("onnxruntime",),
    object_methods=(
        Api("bind_input", _BINDING, (Binds("name", "buffer_ptr", Mode.READ),), telling=()),
        Api("bind_output", _BINDING, (Binds("name", "buffer_ptr", Mode.WRITE),), telling=()),
        Api("bind_ortvalue_input", "name ortvalue", (Binds("name", "ortvalue", Mode.READ),), telling=()),
        Api("bind_ortvalue_output", "name ortvalue", (Binds("name", "ortvalue", Mode.WRITE),), telling=()),
        Api("synchronize_inputs", "", (HostWaitsDevice(),), telling=()),
        Api("synchronize_outputs", "", (HostWaitsDevice(),), telling=()),
        Api(
            "run_with_iobinding",
            "iobinding run_options",
            (Background(bound="iobinding", waits=True, only_gpu=True, unless=f"run_options.{_NO_WAIT}"),),
            telling=(),
        ),
        Api("add_run_config_entry", "key value", (Binds("key", "value"),), telling=()),
    ),
)
STREAM_OPTION = "user_compute_stream"
"""An option of a session's providers: with it the session runs on that stream."""
