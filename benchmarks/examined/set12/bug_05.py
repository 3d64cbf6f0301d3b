import queue
import threading

import torch


class ImageSlot:
    def __init__(self, height, width, device):
        self.chw = torch.empty((3, height, width), dtype=torch.uint8, device=device)
        self.ready = torch.cuda.Event()
        self.released = torch.cuda.Event()
        self.camera = None


class NvCodecImageLoader:
    def __init__(self, decoder, requests, height, width, slots=4, device="cuda"):
        self.decoder = decoder
        self.requests = requests
        self.stream = torch.cuda.Stream(device)
        self.free = queue.Queue()
        self.decoded = queue.Queue()
        for _ in range(slots):
            self.free.put(ImageSlot(height, width, device))
        torch.cuda.synchronize(device)
        self.worker = threading.Thread(target=self._decode_loop, daemon=True)

    def start(self):
        self.worker.start()

    def _decode_loop(self):
        for camera, blob in self.requests:
            slot = self.free.get()
            with torch.cuda.stream(self.stream):
                hwc = self.decoder(blob)
                slot.chw.copy_(hwc.permute(2, 0, 1))
                slot.ready.record(self.stream)
                self.stream.wait_event(slot.released)
            slot.camera = camera
            self.decoded.put(slot)
        self.decoded.put(None)

    def next(self):
        slot = self.decoded.get()
        if slot is not None:
            torch.cuda.current_stream().wait_event(slot.ready)
        return slot

    def release(self, slot):
        slot.released.record(torch.cuda.current_stream())
        self.free.put(slot)


def fit(loader, model, optimizer, ssim):
    loader.start()
    step = 0
    while True:
        slot = loader.next()
        if slot is None:
            break
        gt = slot.chw.float() / 255.0
        pred = model(slot.camera)
        loss = 0.8 * (pred - gt).abs().mean() + 0.2 * (1.0 - ssim(pred, gt))
        loader.release(slot)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
    return step
