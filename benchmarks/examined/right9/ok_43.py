import tensorrt as trt
import torch
from torch import nn

_DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT64: torch.int64,
}


class TrtModule(nn.Module):
    """Runs a serialized engine on whatever torch stream is current."""

    def __init__(self, path):
        super().__init__()
        self.logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as f:
            self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        self.inputs = [n for n in names if self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if n not in self.inputs]

    def forward(self, *args):
        held = []
        for name, t in zip(self.inputs, args):
            t = t.contiguous()
            held.append(t)
            self.context.set_input_shape(name, tuple(t.shape))
            self.context.set_tensor_address(name, t.data_ptr())
        results = []
        for name in self.outputs:
            shape = tuple(self.context.get_tensor_shape(name))
            out = torch.empty(shape, dtype=_DTYPES[self.engine.get_tensor_dtype(name)], device="cuda")
            self.context.set_tensor_address(name, out.data_ptr())
            results.append(out)
        if not self.context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise RuntimeError("enqueue failed")
        return results[0] if len(results) == 1 else tuple(results)


class Detector:
    def __init__(self, path, size=640):
        self.net = TrtModule(path)
        self.size = size
        self.stream = torch.cuda.Stream()

    def _prepare(self, frame):
        t = torch.from_numpy(frame).to("cuda").permute(2, 0, 1).unsqueeze(0).float() / 255
        return nn.functional.interpolate(t, (self.size, self.size), mode="bilinear")

    @torch.inference_mode()
    def __call__(self, frame, keep=100):
        with torch.cuda.stream(self.stream):
            pred = self.net(self._prepare(frame))
            score, cls = pred[0, :, 4:].max(-1)
            top = score.topk(keep)
            boxes = torch.cat([pred[0, top.indices, :4], top.values[:, None], cls[top.indices, None].float()], -1)
            return boxes.cpu().numpy()


if __name__ == "__main__":
    import numpy as np

    detector = Detector("yolo.engine")
    for i in range(10):
        frame = np.random.randint(0, 255, (720, 1280, 3), dtype=np.uint8)
        print(detector(frame)[:3])
