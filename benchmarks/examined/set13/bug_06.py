import cupy as cp
import numpy as np
import tensorrt as trt

MAX_OUTPUT_BBOX_COUNT = 1000
DET_SIZE = 6

_cal_detection = cp.RawKernel(r"""
extern "C" __global__
void cal_detection(const float* input, float* output, int n_elem, int n_cls, float thresh, int max_out) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n_elem) return;
    const float* cell = input + (long long)idx * (5 + n_cls);
    if (cell[4] < thresh) return;
    int cls = 0; float best = 0.f;
    for (int c = 0; c < n_cls; ++c) if (cell[5 + c] > best) { best = cell[5 + c]; cls = c; }
    int slot = (int)atomicAdd(output, 1.0f);
    if (slot >= max_out) return;
    float* det = output + 1 + slot * 6;
    for (int k = 0; k < 4; ++k) det[k] = cell[k];
    det[4] = cell[4] * best; det[5] = (float)cls;
}
""", "cal_detection")


class YoloLayerPlugin(trt.IPluginV2DynamicExt):
    def __init__(self, num_classes=80, thresh=0.1):
        trt.IPluginV2DynamicExt.__init__(self)
        self.num_classes = num_classes
        self.thresh = thresh
        self.num_outputs = 1
        self.plugin_namespace = ""
        self.plugin_type = "YoloLayer_TRT"
        self.plugin_version = "1"

    def get_output_dimensions(self, output_index, inputs, expr_builder):
        dims = trt.DimsExprs(2)
        dims[0] = inputs[0][0]
        dims[1] = expr_builder.constant(1 + MAX_OUTPUT_BBOX_COUNT * DET_SIZE)
        return dims

    def get_output_datatype(self, index, input_types):
        return trt.DataType.FLOAT

    def supports_format_combination(self, pos, in_out, num_inputs):
        return in_out[pos].type == trt.DataType.FLOAT

    def configure_plugin(self, in_desc, out_desc):
        self.num_elem = in_desc[0].desc.dims[1]

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        batch, num_elem, width = input_desc[0].dims
        out_elem = 1 + MAX_OUTPUT_BBOX_COUNT * DET_SIZE
        cp.cuda.runtime.memsetAsync(outputs[0], 0, batch * out_elem * 4, stream)
        threads = 256
        for b in range(batch):
            _cal_detection(
                ((num_elem + threads - 1) // threads,), (threads,),
                (inputs[0] + b * num_elem * width * 4, outputs[0] + b * out_elem * 4,
                 np.int32(num_elem), np.int32(self.num_classes),
                 np.float32(self.thresh), np.int32(MAX_OUTPUT_BBOX_COUNT)),
            )

    def clone(self):
        cloned = YoloLayerPlugin(self.num_classes, self.thresh)
        cloned.__dict__.update(self.__dict__)
        return cloned


class YoloTRT:
    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = cp.cuda.Stream(non_blocking=True)

    def infer(self, d_input, d_output):
        self.context.set_tensor_address("images", d_input.data.ptr)
        self.context.set_tensor_address("prob", d_output.data.ptr)
        with self.stream:
            self.context.execute_async_v3(self.stream.ptr)
            host = cp.asnumpy(d_output, stream=self.stream)
        self.stream.synchronize()
        return host
