"""Image service in three threads: upload, inference and download on their own streams."""
import queue
import threading
from concurrent.futures import Future

import torch
import torch.nn as nn


class ImageService:
    def __init__(self, model, device="cuda:0"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        torch.cuda.synchronize(self.device)
        self.uploads, self.batches, self.outputs = (queue.Queue(8) for _ in range(3))
        self.h2d, self.compute, self.d2h = (torch.cuda.Stream(self.device) for _ in range(3))
        for loop in (self._upload_loop, self._compute_loop, self._download_loop):
            threading.Thread(target=self._enter, args=(loop,), daemon=True).start()

    def _enter(self, loop):
        torch.cuda.set_device(self.device)
        with torch.inference_mode():
            loop()

    def submit(self, image):
        """image: uint8 host tensor (3, H, W)."""
        future = Future()
        self.uploads.put((image, future))
        return future

    def _upload_loop(self):
        while True:
            image, future = self.uploads.get()
            with torch.cuda.stream(self.h2d):
                x = image.pin_memory().to(self.device, non_blocking=True)
                x = x.unsqueeze(0).float().div_(255.0)
                uploaded = self.h2d.record_event()
            x.record_stream(self.compute)
            self.batches.put((x, uploaded, future))
            del x

    def _compute_loop(self):
        while True:
            x, uploaded, future = self.batches.get()
            with torch.cuda.stream(self.compute):
                self.compute.wait_event(uploaded)
                y = self.model(x).softmax(-1)
                computed = self.compute.record_event()
            y.record_stream(self.d2h)
            self.outputs.put((y, computed, future))
            del x, y

    def _download_loop(self):
        while True:
            y, computed, future = self.outputs.get()
            with torch.cuda.stream(self.d2h):
                self.d2h.wait_event(computed)
                host = torch.empty(y.shape, dtype=y.dtype, pin_memory=True)
                host.copy_(y, non_blocking=True)
            del y
            self.d2h.synchronize()
            future.set_result(host[0].tolist())


if __name__ == "__main__":
    net = nn.Sequential(nn.Conv2d(3, 64, 7, stride=4), nn.ReLU(), nn.Conv2d(64, 128, 3, stride=2),
                        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    service = ImageService(net)
    jobs = [service.submit(torch.randint(0, 256, (3, 512, 512), dtype=torch.uint8))
            for _ in range(100)]
    print(sum(max(j.result()) for j in jobs))
