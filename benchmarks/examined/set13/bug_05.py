import numpy as np
import tensorrt as trt
import torch

TRT_TO_TORCH = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT64: torch.int64,
    trt.DataType.BOOL: torch.bool,
}


def aligned_tensor(shape, dtype, device, alignment=256):
    itemsize = torch.empty((), dtype=dtype).element_size()
    nbytes = int(np.prod(shape)) * itemsize
    raw = torch.empty(nbytes + alignment, dtype=torch.uint8, device=device)
    offset = (-raw.data_ptr()) % alignment
    return raw[offset : offset + nbytes].view(dtype).view(*shape)


class TensorRTRunner:
    def __init__(self, engine_path, input_callback=None):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(engine_path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.input_callback = input_callback
        self.input_names, self.output_names = [], []
        self.tensor_dtypes = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            self.tensor_dtypes[name] = TRT_TO_TORCH[self.engine.get_tensor_dtype(name)]
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.input_names.append(name)
            else:
                self.output_names.append(name)

    def __call__(self, feeds):
        stream = self.stream
        buffers = {}
        for name in self.input_names:
            value = feeds[name]
            if isinstance(value, np.ndarray):
                value = torch.from_numpy(value)
            buf = aligned_tensor(tuple(value.shape), self.tensor_dtypes[name], "cuda")
            buf.copy_(value)
            buffers[name] = buf
            self.context.set_input_shape(name, tuple(value.shape))
            self.context.set_tensor_address(name, buf.data_ptr())

        if self.input_callback:
            self.input_callback(buffers)

        outputs = {}
        for name in self.output_names:
            shape = tuple(self.context.get_tensor_shape(name))
            output = aligned_tensor(shape, self.tensor_dtypes[name], "cuda")
            outputs[name] = output
            self.context.set_tensor_address(name, output.data_ptr())

        if not self.context.execute_async_v3(stream.cuda_stream):
            raise RuntimeError("TensorRT execution failed")
        stream.synchronize()
        return outputs


def evaluate(engine_path, backbone, loader):
    runner = TensorRTRunner(engine_path)
    results = []
    with torch.no_grad():
        for data in loader:
            feats = backbone(data["img"].cuda())
            out = runner({"img_feats": feats, "lidar2img": data["lidar2img"].cuda()})
            results.append({k: v.float().cpu() for k, v in out.items()})
    return results
