"""Frame pipeline over two threads with a ring of slots."""
import queue
import threading

import torch
import torch.nn.functional as F


class Slot:
    def __init__(self, shape, device):
        self.frame = torch.zeros(shape, device=device)
        self.event = torch.cuda.Event()


class Uploader(threading.Thread):
    def __init__(self, frames, free, full, device):
        super().__init__(daemon=True)
        self.frames, self.free, self.full = frames, free, full
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            for pinned in self.frames:
                slot = self.free.get()
                self.stream.wait_event(slot.event)
                slot.frame.copy_(pinned, non_blocking=True)
                slot.frame.mul_(1.0 / 255.0)
                slot.event.record(self.stream)
                self.full.put(slot)
        self.full.put(None)


class Stabilizer:
    def __init__(self, shape, slots=3, device="cuda:0"):
        self.device = torch.device(device)
        self.free, self.full = queue.Queue(), queue.Queue()
        self.slots = [Slot(shape, self.device) for _ in range(slots)]
        self.reference = torch.zeros(shape, device=self.device)
        torch.cuda.synchronize(self.device)
        for slot in self.slots:
            self.free.put(slot)

    def process(self, frames):
        """frames: list of pinned float tensors. Returns one score for each frame."""
        uploader = Uploader(frames, self.free, self.full, self.device)
        uploader.start()
        stream = torch.cuda.current_stream(self.device)
        scores = []
        while True:
            slot = self.full.get()
            if slot is None:
                break
            stream.wait_event(slot.event)
            blurred = F.avg_pool2d(slot.frame[None], 5, stride=1, padding=2)[0]
            scores.append((blurred - self.reference).abs().mean())
            self.reference.lerp_(slot.frame, 0.1)
            slot.event.record(stream)
            self.free.put(slot)
        uploader.join()
        return torch.stack(scores).tolist()


if __name__ == "__main__":
    stab = Stabilizer((3, 720, 1280))
    clip = [torch.randint(0, 256, (3, 720, 1280)).float().pin_memory() for _ in range(24)]
    print(stab.process(clip)[:5])
    print(stab.process(clip)[:5])
