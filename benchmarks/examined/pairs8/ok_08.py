import numpy as np
import tensorrt as trt
import torch

_DTYPES = {trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32}


class TrtDetector:
    def __init__(self, plan_path):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(plan_path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.host, self.dev = {}, {}
        self.inputs, self.outputs = [], []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            dtype = _DTYPES[self.engine.get_tensor_dtype(name)]
            self.host[name] = torch.empty(shape, dtype=dtype, pin_memory=True)
            self.dev[name] = torch.empty(shape, dtype=dtype, device="cuda")
            self.context.set_tensor_address(name, self.dev[name].data_ptr())
            mode = self.engine.get_tensor_mode(name)
            (self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs).append(name)

    def infer(self, feeds):
        with torch.cuda.stream(self.stream):
            for name in self.inputs:
                np.copyto(self.host[name].numpy(), feeds[name])
                self.dev[name].copy_(self.host[name], non_blocking=True)
            if not self.context.execute_async_v3(self.stream.cuda_stream):
                raise RuntimeError("enqueue failed")
            for name in self.outputs:
                self.host[name].copy_(self.dev[name], non_blocking=True)
        self.stream.synchronize()
        return {name: self.host[name].numpy().copy() for name in self.outputs}


def main(plan="detector.plan"):
    det = TrtDetector(plan)
    boxes = []
    for seed in range(10):
        frame = np.random.default_rng(seed).random((1, 3, 640, 640), dtype=np.float32)
        boxes.append(det.infer({"images": frame}))
    print(len(boxes), {k: v.shape for k, v in boxes[0].items()})


if __name__ == "__main__":
    main()
