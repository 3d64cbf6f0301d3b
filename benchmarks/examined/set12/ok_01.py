import logging
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import torch
import torch.nn.functional as F


class WriteBuffer:
    def __init__(self, pipe, height, width, maxQueue=10):
        self.pipe = pipe
        self.writeQueue = Queue(maxsize=maxQueue)
        self.transferStream = torch.cuda.Stream()
        self.pinned = torch.empty((height, width), dtype=torch.uint8, pin_memory=True)

    def write(self, frame):
        self.writeQueue.put(frame)

    def close(self):
        self.writeQueue.put(None)

    def __call__(self):
        while True:
            frame = self.writeQueue.get()
            if frame is None:
                break
            with torch.cuda.stream(self.transferStream):
                frame.record_stream(self.transferStream)
                out = frame.mul(255.0).round_().to(torch.uint8)
                self.pinned.copy_(out, non_blocking=True)
            self.transferStream.synchronize()
            self.pipe.write(self.pinned.numpy().tobytes())


class DepthCuda:
    def __init__(self, model, reader, pipe, width, height, batchSize=4, half=True):
        self.model = model
        self.readBuffer = reader
        self.width = width
        self.height = height
        self.batchSize = batchSize
        self.dtype = torch.float16 if half else torch.float32
        self.device = torch.device("cuda")
        self.stream = torch.cuda.Stream()
        self.writeBuffer = WriteBuffer(pipe, height, width)

    def run(self):
        with ThreadPoolExecutor(max_workers=2) as executor:
            executor.submit(self.writeBuffer)
            executor.submit(self.process)

    @torch.inference_mode()
    def _normalizeDepth(self, depth):
        low = depth.min()
        high = depth.max()
        return ((depth - low) / (high - low).clamp(min=1e-6)).squeeze(0)

    @torch.inference_mode()
    def processBatch(self, frames):
        try:
            with torch.cuda.stream(self.stream):
                batch = torch.stack(frames).to(self.device).to(self.dtype)
                depth = self.model(batch)
                depth = F.interpolate(
                    depth.float(), (self.height, self.width), mode="bilinear", align_corners=True
                )
                normalized = [self._normalizeDepth(depth[i]) for i in range(depth.shape[0])]
            self.stream.synchronize()
            for frame in normalized:
                self.writeBuffer.write(frame)
        except Exception as e:
            logging.exception(f"Something went wrong while processing the batch, {e}")

    def process(self):
        pending = []
        while True:
            frame = self.readBuffer.read()
            if frame is None:
                break
            pending.append(frame)
            if len(pending) == self.batchSize:
                self.processBatch(pending)
                pending = []
        if pending:
            self.processBatch(pending)
        self.writeBuffer.close()
