"""Frame interpolation: a captured model feeds an encoder thread through a queue."""
import subprocess
import threading
from queue import Queue

import torch


class WriteBuffer:
    def __init__(self, width, height, fps, output):
        self.queue = Queue(maxsize=32)
        self.stream = torch.cuda.Stream()
        self.host = torch.empty(height, width, 3, dtype=torch.uint8, pin_memory=True)
        self.process = subprocess.Popen(
            ["ffmpeg", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}",
             "-r", str(fps), "-i", "-", "-c:v", "libx264", output],
            stdin=subprocess.PIPE,
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def write(self, frame, event):
        self.queue.put((frame, event))

    def _run(self):
        with torch.cuda.stream(self.stream):
            while True:
                item = self.queue.get()
                if item is None:
                    break
                frame, event = item
                self.stream.wait_event(event)
                rgb = frame.squeeze(0).permute(1, 2, 0).mul(255).clamp(0, 255).to(torch.uint8)
                self.host.copy_(rgb, non_blocking=True)
                self.stream.synchronize()
                self.process.stdin.write(self.host.numpy().tobytes())
        self.process.stdin.close()

    def close(self):
        self.queue.put(None)
        self.thread.join()
        self.process.wait()


class Interpolator:
    def __init__(self, model, height, width, factor):
        self.model = model.cuda().eval()
        self.factor = factor
        shape = (1, 3, height, width)
        self.i0 = torch.zeros(shape, device="cuda")
        self.i1 = torch.zeros(shape, device="cuda")
        self.timestep = torch.zeros(1, 1, height, width, device="cuda")
        self.stream = torch.cuda.Stream()
        self.graph = torch.cuda.CUDAGraph()
        self._setup_cuda_graph()
        pool_size = max(int(factor), 4)
        self._output_pool = [torch.zeros(shape, device="cuda") for _ in range(pool_size)]
        self._pool_idx = 0
        torch.cuda.synchronize()

    @torch.inference_mode()
    def _setup_cuda_graph(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.model(self.i0, self.i1, self.timestep)
        self.stream.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.output = self.model(self.i0, self.i1, self.timestep)

    def _next_output(self):
        out = self._output_pool[self._pool_idx]
        self._pool_idx = (self._pool_idx + 1) % len(self._output_pool)
        return out

    @torch.inference_mode()
    def __call__(self, frame, sink):
        with torch.cuda.stream(self.stream):
            self.i0.copy_(self.i1)
            self.i1.copy_(frame.pin_memory().to("cuda", non_blocking=True))
            for i in range(1, self.factor):
                self.timestep.fill_(i / self.factor)
                self.graph.replay()
                out = self._next_output()
                out.copy_(self.output)
                event = torch.cuda.Event()
                event.record(self.stream)
                sink.write(out, event)


def process(model, frames, height, width, output):
    interpolate = Interpolator(model, height, width, factor=2)
    sink = WriteBuffer(width, height, 48, output)
    for frame in frames:
        interpolate(frame, sink)
    sink.close()
