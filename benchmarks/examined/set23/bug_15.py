"""TensorRT Python plugin: gated recurrence with a carried state in the workspace."""
import numpy as np
import cupy as cp
import tensorrt as trt
from cupy.cuda import runtime

_recurrence = cp.RawKernel(r"""
extern "C" __global__
void recurrence(const float* x, const float* gate, float* state, float* out, int steps, int width) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= width) return;
    float h = state[c];
    for (int t = 0; t < steps; ++t) {
        float g = gate[t * width + c];
        h = g * h + (1.f - g) * x[t * width + c];
        out[t * width + c] = h;
    }
    state[c] = h;
}
""", "recurrence")


def copy_d2d(dst, src, nbytes, stream=0):
    runtime.memcpyAsync(dst, src, nbytes, runtime.memcpyDeviceToDevice, stream)


class GatedRecurrencePlugin(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
    def __init__(self):
        trt.IPluginV3.__init__(self)
        trt.IPluginV3OneCore.__init__(self)
        trt.IPluginV3OneBuild.__init__(self)
        trt.IPluginV3OneRuntime.__init__(self)
        self.plugin_name = "GatedRecurrence"
        self.plugin_version = "1"
        self.plugin_namespace = ""
        self.num_outputs = 1

    def get_capability_interface(self, type):
        return self

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, expr_builder):
        return [trt.DimsExprs(inputs[0])]

    def supports_format_combination(self, pos, in_out, num_inputs):
        desc = in_out[pos].desc
        return desc.type == trt.DataType.FLOAT and desc.format == trt.TensorFormat.LINEAR

    def configure_plugin(self, inputs, outputs):
        pass

    def on_shape_change(self, inputs, outputs):
        pass

    def get_workspace_size(self, inputs, outputs):
        return int(inputs[0].max[1]) * 4

    def get_valid_tactics(self):
        return []

    def set_tactic(self, tactic):
        pass

    def attach_to_context(self, context):
        return self.clone()

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection([])

    def clone(self):
        cloned = GatedRecurrencePlugin()
        cloned.__dict__.update(self.__dict__)
        return cloned

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        steps, width = input_desc[0].dims
        copy_d2d(workspace, inputs[2], width * 4)
        grid = ((width + 255) // 256,)
        with cp.cuda.ExternalStream(stream):
            _recurrence(
                grid, (256,),
                (np.uintp(inputs[0]), np.uintp(inputs[1]), np.uintp(workspace), np.uintp(outputs[0]),
                 np.int32(steps), np.int32(width)),
            )
        return 0


def build(steps, width):
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    x = network.add_input("x", trt.float32, (steps, width))
    gate = network.add_input("gate", trt.float32, (steps, width))
    x0 = network.add_input("x0", trt.float32, (width,))
    state = network.add_activation(x0, trt.ActivationType.TANH).get_output(0)
    gate = network.add_activation(gate, trt.ActivationType.SIGMOID).get_output(0)
    layer = network.add_plugin_v3([x, gate, state], [], GatedRecurrencePlugin())
    layer.get_output(0).name = "out"
    network.mark_output(layer.get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    return trt.Runtime(logger).deserialize_cuda_engine(plan)


def infer(steps=512, width=4096, runs=32):
    context = build(steps, width).create_execution_context()
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        rng = cp.random.RandomState(0)
        bufs = {
            "x": rng.standard_normal((steps, width), dtype=cp.float32),
            "gate": rng.standard_normal((steps, width), dtype=cp.float32),
            "x0": cp.zeros(width, dtype=cp.float32),
            "out": cp.empty((steps, width), dtype=cp.float32),
        }
        for name, buf in bufs.items():
            context.set_tensor_address(name, buf.data.ptr)
        for _ in range(runs):
            context.execute_async_v3(stream.ptr)
            bufs["x0"][...] = bufs["out"][-1]
        print(float(bufs["out"].mean()))


if __name__ == "__main__":
    infer()
