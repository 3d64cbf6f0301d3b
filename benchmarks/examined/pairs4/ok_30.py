"""TensorRT detector: preprocessing, engine and readback on one stream."""
import numpy as np
import tensorrt as trt
import torch


class Engine:
    def __init__(self, path, stream):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = stream
        self.buffers = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            self.buffers[name] = torch.empty(shape, device="cuda")
            self.context.set_tensor_address(name, self.buffers[name].data_ptr())

    def run(self):
        if not self.context.execute_async_v3(self.stream.cuda_stream):
            raise RuntimeError("enqueue failed")


class Detector:
    def __init__(self, path):
        self.stream = torch.cuda.Stream()
        self.engine = Engine(path, self.stream)
        self.host_in = torch.empty(720, 1280, 3, dtype=torch.uint8, pin_memory=True)
        self.host_out = torch.empty(self.engine.buffers["boxes"].shape, pin_memory=True)
        torch.cuda.synchronize()

    def __call__(self, frame: np.ndarray) -> np.ndarray:
        self.host_in.numpy()[:] = frame
        with torch.cuda.stream(self.stream):
            x = self.host_in.to("cuda", non_blocking=True).permute(2, 0, 1)[None].float() / 255
            x = torch.nn.functional.interpolate(x, size=(640, 640), mode="bilinear")
            self.engine.buffers["images"].copy_(x)
            self.engine.run()
            self.host_out.copy_(self.engine.buffers["boxes"], non_blocking=True)
        self.stream.synchronize()
        return self.host_out.numpy().copy()


def main(path="detector.plan"):
    detector = Detector(path)
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(100):
        boxes = detector(rng.integers(0, 255, (720, 1280, 3), dtype=np.uint8))
        counts.append(int((boxes[..., 4] > 0.4).sum()))
    print(np.mean(counts))


if __name__ == "__main__":
    main()
