from collections import deque

import numpy as np
import tensorrt as trt
import torch


class UpscaleEngine:
    def __init__(self, path, height, width, half=True, device="cuda"):
        self.dtype = torch.float16 if half else torch.float32
        self.device = torch.device(device)
        with open(path, "rb") as f:
            self.engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(self.device)
        self.input = torch.zeros(1, 3, height, width, dtype=self.dtype, device=self.device)
        self.context.set_input_shape("input", tuple(self.input.shape))
        out_shape = tuple(self.context.get_tensor_shape("output"))
        self.output = torch.zeros(out_shape, dtype=self.dtype, device=self.device)
        self.context.set_tensor_address("input", self.input.data_ptr())
        self.context.set_tensor_address("output", self.output.data_ptr())
        torch.cuda.synchronize(self.device)
        for _ in range(3):
            self.context.execute_async_v3(self.stream.cuda_stream)
        self.stream.synchronize()

    def __call__(self, frame):
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.input.copy_(frame)
            self.context.execute_async_v3(self.stream.cuda_stream)
        frame.record_stream(self.stream)
        current.wait_stream(self.stream)
        return self.output.clone()


class FrameWriter:
    def __init__(self, sink, depth=4):
        self.sink = sink
        self.depth = depth
        self.pending = deque()

    def write(self, frame):
        host = torch.empty(frame.shape, dtype=frame.dtype, pin_memory=True)
        host.copy_(frame, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self.pending.append((host, event))
        if len(self.pending) > self.depth:
            self._pop()

    def _pop(self):
        host, event = self.pending.popleft()
        event.synchronize()
        self.sink.write(host.numpy().tobytes())

    def close(self):
        while self.pending:
            self._pop()


@torch.inference_mode()
def upscale(reader, sink, engine):
    writer = FrameWriter(sink)
    for image in reader:
        frame = torch.from_numpy(np.ascontiguousarray(image)).to(engine.device)
        x = frame.permute(2, 0, 1).unsqueeze(0).to(engine.dtype).mul_(1 / 255)
        y = engine(x)
        rgb = y.squeeze(0).permute(1, 2, 0).mul(255).clamp_(0, 255).to(torch.uint8).contiguous()
        writer.write(rgb)
    writer.close()
