import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import torch


class EMAMinMaxScaler:
    def __init__(self, decay=0.9):
        self.decay = decay
        self.min = self.max = None

    def __call__(self, depth):
        lo, hi = depth.amin(), depth.amax()
        if self.min is None:
            self.min, self.max = lo, hi
        else:
            self.min = self.decay * self.min + (1.0 - self.decay) * lo
            self.max = self.decay * self.max + (1.0 - self.decay) * hi
        return ((depth - self.min) / (self.max - self.min + 1e-6)).clamp(0, 1)


class DepthModel:
    def __init__(self, model, device, max_workers=2, cuda_stream=True):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.scaler = EMAMinMaxScaler()
        self.use_stream = cuda_stream
        self.local = threading.local()
        self.pool = ThreadPoolExecutor(max_workers=max_workers)

    def _get_stream(self):
        if not hasattr(self.local, "stream"):
            self.local.stream = torch.cuda.Stream(device=self.device)
        return self.local.stream

    @torch.inference_mode()
    def infer(self, x):
        if not self.use_stream:
            return self.model(x), None
        stream = self._get_stream()
        stream.wait_stream(torch.cuda.default_stream(self.device))
        with torch.cuda.stream(stream):
            x.record_stream(stream)
            depth = self.model(x)
            event = stream.record_event()
        return depth, event

    def submit(self, x):
        return self.pool.submit(self.infer, x)

    @torch.inference_mode()
    def postprocess(self, depth, event):
        if event is not None:
            default_stream = torch.cuda.default_stream(self.device)
            default_stream.wait_event(event)
            depth.record_stream(default_stream)
        return self.scaler(depth)


class FrameProcessor:
    def __init__(self, depth_model, side_model, lookahead=4):
        self.depth_model = depth_model
        self.side_model = side_model
        self.lookahead = lookahead
        self.buffer = deque()

    def _pop(self):
        frame, future = self.buffer.popleft()
        depth = self.depth_model.postprocess(*future.result())
        return self.side_model(frame, depth)

    def push(self, frame):
        x = frame.to(self.depth_model.device)
        self.buffer.append((x, self.depth_model.submit(x.unsqueeze(0).float().div(255.0))))
        if len(self.buffer) > self.lookahead:
            return self._pop()
        return None

    def flush(self):
        while self.buffer:
            yield self._pop()
