"""Frame interpolation with a TensorRT engine and a threaded writer that feeds the encoder."""
import queue
import subprocess
import threading

import numpy as np
import tensorrt as trt
import torch


class WriteBuffer(threading.Thread):
    """Takes CHW tensors from the queue, converts them and pipes raw frames to ffmpeg."""

    def __init__(self, output, width, height, fps, maxsize=16):
        super().__init__()
        self.queue = queue.Queue(maxsize=maxsize)
        command = [
            "ffmpeg", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
            "-r", str(fps), "-i", "-", "-c:v", "hevc_nvenc", "-preset", "p4", output,
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)
        self.stream = torch.cuda.Stream()

    def write(self, frame):
        self.queue.put(frame)

    def run(self):
        with torch.cuda.stream(self.stream), torch.inference_mode():
            while (frame := self.queue.get()) is not None:
                rgb = frame.squeeze(0).permute(1, 2, 0).mul(255.0).clamp(0, 255).byte()
                host = rgb.to("cpu", non_blocking=True)
                self.stream.synchronize()
                self.process.stdin.write(np.ascontiguousarray(host.numpy()).tobytes())
        self.process.stdin.close()
        self.process.wait()

    def close(self):
        self.queue.put(None)
        self.join()


class RifeTensorRT:
    def __init__(self, engine_path, width, height, factor):
        self.factor = factor
        logger = trt.Logger(trt.Logger.WARNING)
        with open(engine_path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        shape = (1, 3, height, width)
        self.I0 = torch.zeros(shape, dtype=torch.float16, device="cuda")
        self.I1 = torch.zeros(shape, dtype=torch.float16, device="cuda")
        self.timestep = torch.zeros((1, 1, height, width), dtype=torch.float16, device="cuda")
        self.output = torch.zeros(shape, dtype=torch.float16, device="cuda")
        for name, tensor in (("img0", self.I0), ("img1", self.I1),
                             ("timestep", self.timestep), ("output", self.output)):
            self.context.set_tensor_address(name, tensor.data_ptr())
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.first_run = True

    @torch.inference_mode()
    def __call__(self, frame, writer):
        """frame: uint8 HWC array; intermediate frames go to the writer as they are made."""
        with torch.cuda.stream(self.stream):
            image = torch.from_numpy(frame).pin_memory().to("cuda", non_blocking=True)
            self.I1.copy_(image.permute(2, 0, 1).unsqueeze(0).half().div_(255.0))
            if self.first_run:
                self.I0.copy_(self.I1)
                self.first_run = False
                return
            for i in range(self.factor - 1):
                self.timestep.fill_((i + 1) / self.factor)
                self.context.execute_async_v3(self.stream.cuda_stream)
                self.stream.synchronize()
                writer.write(self.output)
            self.I0.copy_(self.I1)
            self.stream.synchronize()


def process(reader, engine_path, output, width, height, fps, factor=2):
    writer = WriteBuffer(output, width, height, fps * factor)
    writer.start()
    interpolate = RifeTensorRT(engine_path, width, height, factor)
    for frame in reader:
        interpolate(frame, writer)
        original = torch.from_numpy(frame).cuda().permute(2, 0, 1).unsqueeze(0).half().div_(255.0)
        torch.cuda.current_stream().synchronize()
        writer.write(original)
    writer.close()
