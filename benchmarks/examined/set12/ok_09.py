import threading
from queue import Queue

import torch


class BlendWorker(threading.Thread):
    def __init__(self, restorer, source, frame_queue, device):
        super().__init__(daemon=True)
        self.restorer = restorer
        self.source = source
        self.frame_queue = frame_queue
        self.device = device
        self.restore_stream = torch.cuda.Stream(device)

    def _blend(self, frame, region, patch):
        top, bottom, left, right = region
        alpha = torch.linspace(0, 1, right - left, device=self.device)
        crop = frame[:, top:bottom, left:right]
        crop.lerp_(patch, alpha)
        return frame

    def run(self):
        for pts, cpu_frame, region in self.source:
            with torch.cuda.stream(self.restore_stream):
                frame = cpu_frame.to(self.device).float().div_(255.0)
                if region is not None:
                    patch = self.restorer(frame, region)
                    frame = self._blend(frame, region, patch)
                ready = torch.cuda.Event()
                ready.record(self.restore_stream)
            self.frame_queue.put((pts, frame, ready))
        self.frame_queue.put(None)


class NvencWriter(threading.Thread):
    def __init__(self, muxer, frame_queue, height, width, device):
        super().__init__()
        self.muxer = muxer
        self.frame_queue = frame_queue
        self.encode_stream = torch.cuda.Stream(device)
        self.coeffs = torch.tensor([0.2126, 0.7152, 0.0722], device=device).view(3, 1, 1)
        self.host = torch.empty((height, width), dtype=torch.uint8, pin_memory=True)
        torch.cuda.synchronize(device)

    def run(self):
        while True:
            item = self.frame_queue.get()
            if item is None:
                break
            pts, frame, ready = item
            with torch.cuda.stream(self.encode_stream):
                self.encode_stream.wait_event(ready)
                frame.record_stream(self.encode_stream)
                luma = (frame * self.coeffs).sum(0).mul_(219).add_(16)
                self.host.copy_(luma.to(torch.uint8), non_blocking=True)
            self.encode_stream.synchronize()
            self.muxer.write(pts, self.host.numpy().tobytes())
        self.muxer.close()


def restore_video(restorer, source, muxer, height, width, device="cuda"):
    frames = Queue(maxsize=8)
    worker = BlendWorker(restorer, source, frames, torch.device(device))
    writer = NvencWriter(muxer, frames, height, width, torch.device(device))
    worker.start()
    writer.start()
    writer.join()
