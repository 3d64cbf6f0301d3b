"""WebRTC frame path: worker thread renders, double-buffered page-locked output for the transport."""
import asyncio
import threading
from collections import deque

import torch


class HostFrame:
    """A slot of page-locked memory and the event behind its last copy."""

    def __init__(self, shape):
        self.tensor = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.event = torch.cuda.Event()


class FrameProcessor(threading.Thread):
    """Runs the pipeline in a worker; finished frames are bytes in a bounded output queue."""

    def __init__(self, pipeline, shape, device, loop):
        super().__init__(daemon=True)
        self.pipeline = pipeline
        self.device = device
        self.loop = loop
        self.inputs = deque(maxlen=2)
        self.input_ready = threading.Event()
        self.outputs = deque(maxlen=8)
        self.output_ready = asyncio.Event()
        self.running = True
        self.slots = [HostFrame(shape), HostFrame(shape)]
        self.upload = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.uploaded = torch.cuda.Event()
        self.d2h_stream = torch.cuda.Stream(device=device)

    def put(self, frame):
        self.inputs.append(frame)
        self.input_ready.set()

    def _signal(self, payload):
        self.outputs.append(payload)
        self.output_ready.set()

    def _to_device(self, frame):
        self.uploaded.synchronize()
        self.upload.copy_(torch.from_numpy(frame))
        x = self.upload.to(self.device, non_blocking=True)
        self.uploaded.record()
        return x.permute(2, 0, 1).float().div_(127.5).sub_(1.0)

    def _start_download(self, image, slot):
        rgb = image.add(1.0).mul_(127.5).clamp_(0, 255).byte().permute(1, 2, 0).contiguous()
        self.d2h_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.d2h_stream):
            slot.tensor.copy_(rgb, non_blocking=True)
            slot.event.record()
        rgb.record_stream(self.d2h_stream)

    def _deliver(self, slot):
        slot.event.synchronize()
        payload = slot.tensor.numpy().tobytes()
        self.loop.call_soon_threadsafe(self._signal, payload)

    def run(self):
        torch.cuda.set_device(self.device)
        turn, pending = 0, None
        with torch.inference_mode():
            while self.running:
                if not self.input_ready.wait(timeout=0.1):
                    continue
                self.input_ready.clear()
                while self.inputs:
                    frame = self.inputs.popleft()
                    image = self.pipeline(self._to_device(frame))
                    slot = self.slots[turn]
                    self._start_download(image, slot)
                    if pending is not None:
                        self._deliver(pending)
                    pending = slot
                    turn ^= 1
                if pending is not None:
                    self._deliver(pending)
                    pending = None

    def stop(self):
        self.running = False
        self.join()


class VideoTrack:
    def __init__(self, source, pipeline, shape, device):
        self.source = source
        self.processor = FrameProcessor(pipeline, shape, device, asyncio.get_running_loop())
        self.processor.start()

    async def pump(self):
        async for frame in self.source:
            self.processor.put(frame)

    async def recv(self):
        while not self.processor.outputs:
            self.processor.output_ready.clear()
            await self.processor.output_ready.wait()
        return self.processor.outputs.popleft()
