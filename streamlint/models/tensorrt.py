"""TensorRT: inference that is queued on a raw stream and uses memory that it was told of by address."""

from __future__ import annotations

from streamlint.models.schema import Api, Binds, Framework, Lib, Pure, Succeeds, Uses

_TOLD = (Pure(own=True),)
"""An engine is built: the third of its tensors has one name, whoever asks and how often."""

TELLS_DIRECTION = frozenset({"get_tensor_mode", "binding_is_input"})
"""Methods that say whether a tensor of an engine is an input: some are, and some are not."""

DIRECTIONS = frozenset({"INPUT", "OUTPUT"})
"""What such a method says of a name that is a tensor's: one of the two holds."""

TENSORRT = Framework(
    lib=Lib.TENSORRT,
    # own_memory: each context has its activations in one, so that two calls may not run at the same time:
    # https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/c-api/classnvinfer1_1_1_i_execution_context.html
    url="https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/infer/Core/ExecutionContext.html",
    modules=("tensorrt",),
    functions=(),
    object_methods=(
        Api("set_tensor_address", "name memory", (Binds("name", "memory"), Succeeds()), telling=()),
        Api("set_input_consumed_event", "event", (Binds(None, "event"), Succeeds()), telling=()),
        Api(
            "execute_async_v3",
            "stream_handle",
            (Uses(stream="stream_handle", bound=True, own_memory=True), Succeeds()),
            telling=(),
        ),
        Api(
            "execute_async",
            "batch_size bindings stream_handle input_consumed",
            (Uses(stream="stream_handle", packed=("bindings",), own_memory=True), Succeeds()),
            telling=("stream_handle",),
        ),
        Api(
            "execute_async_v2",
            "bindings stream_handle input_consumed",
            (Uses(stream="stream_handle", packed=("bindings",), own_memory=True), Succeeds()),
            telling=(),
        ),
        Api("get_tensor_name", "index", _TOLD, telling=()),
        Api("get_tensor_mode", "name", _TOLD, telling=()),
        Api("binding_is_input", "index", _TOLD, telling=()),
    ),
)
