import queue
import threading

import numpy as np
import torch


class FrameSlot:
    def __init__(self, shape, device):
        self.host = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.device = torch.empty(shape, dtype=torch.uint8, device=device)
        self.filled = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class CaptureThread(threading.Thread):
    """Reads frames from a camera into slots that the consumer gives back."""

    def __init__(self, camera, free: queue.Queue, full: queue.Queue, device):
        super().__init__(daemon=True)
        self.camera = camera
        self.free = free
        self.full = full
        self.device = device

    def run(self):
        torch.cuda.set_device(self.device)
        upload = torch.cuda.Stream(self.device)
        for frame in self.camera:
            slot = self.free.get()
            if slot is None:
                break
            slot.consumed.synchronize()
            np.copyto(slot.host.numpy(), frame)
            with torch.cuda.stream(upload):
                slot.device.copy_(slot.host, non_blocking=True)
            slot.filled.record(upload)
            self.full.put(slot)
        self.full.put(None)


class Detector:
    def __init__(self, model, shape, device, num_slots=3):
        self.model = model
        self.device = device
        self.free: queue.Queue = queue.Queue()
        self.full: queue.Queue = queue.Queue()
        self.stream = torch.cuda.current_stream(device)
        for _ in range(num_slots):
            slot = FrameSlot(shape, device)
            slot.consumed.record(self.stream)
            self.free.put(slot)

    @torch.inference_mode()
    def run(self, camera):
        CaptureThread(camera, self.free, self.full, self.device).start()
        counts = []
        while True:
            slot = self.full.get()
            if slot is None:
                break
            self.stream.wait_event(slot.filled)
            image = slot.device.permute(2, 0, 1).unsqueeze(0).float().div_(255)
            slot.consumed.record(self.stream)
            self.free.put(slot)
            scores = self.model(image)
            counts.append((scores > 0.5).sum())
        return torch.stack(counts).tolist() if counts else []


def main(camera, model, height=720, width=1280):
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    detector = Detector(model.to(device).eval(), (height, width, 3), device)
    print(detector.run(camera))
