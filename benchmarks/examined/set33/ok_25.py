import numpy as np
import torch


class Slot:
    def __init__(self, height: int, width: int, device: torch.device):
        pixels = height * width
        self.raw_host = torch.empty(pixels * 3 // 2, dtype=torch.uint8, pin_memory=True)
        self.raw = torch.empty(pixels * 3 // 2, dtype=torch.uint8, device=device)
        self.luma = torch.empty(height, width, dtype=torch.float16, device=device)
        self.result = torch.empty(height // 2, width // 2, dtype=torch.uint8, device=device)
        self.result_host = torch.empty(height // 2, width // 2, dtype=torch.uint8, pin_memory=True)
        self.decoded = torch.cuda.Event()
        self.converted = torch.cuda.Event()
        self.packed = torch.cuda.Event()
        self.frame_id = -1


class FramePipeline:
    """upload / convert / pack, one stream for each stage, a few frames in flight."""

    def __init__(self, height=1080, width=1920, depth=3, device="cuda:0"):
        self.device = torch.device(device)
        self.height, self.width = height, width
        self.upload = torch.cuda.Stream(self.device)
        self.convert = torch.cuda.Stream(self.device)
        self.pack = torch.cuda.Stream(self.device)
        self.slots = [Slot(height, width, self.device) for _ in range(depth)]
        self.next_id = 0

    def _collect(self, slot: Slot):
        if slot.frame_id < 0:
            return None
        slot.packed.synchronize()
        item = (slot.frame_id, slot.result_host.numpy().copy())
        slot.frame_id = -1
        return item

    def submit(self, frame: np.ndarray):
        slot = self.slots[self.next_id % len(self.slots)]
        finished = self._collect(slot)
        slot.raw_host.copy_(torch.from_numpy(frame.reshape(-1)))
        with torch.cuda.stream(self.upload):
            self.upload.wait_event(slot.packed)
            slot.raw.copy_(slot.raw_host, non_blocking=True)
            slot.decoded.record(self.upload)
        with torch.cuda.stream(self.convert):
            self.convert.wait_event(slot.decoded)
            pixels = self.height * self.width
            slot.luma.copy_(slot.raw[:pixels].view(self.height, self.width))
            slot.luma.div_(255.0)
            slot.converted.record(self.convert)
        with torch.cuda.stream(self.pack):
            self.pack.wait_event(slot.converted)
            small = torch.nn.functional.avg_pool2d(slot.luma[None, None], 2)[0, 0]
            slot.result.copy_(small.mul_(255.0).to(torch.uint8))
            slot.result_host.copy_(slot.result, non_blocking=True)
            slot.packed.record(self.pack)
        slot.frame_id = self.next_id
        self.next_id += 1
        return finished

    def drain(self):
        order = sorted(self.slots, key=lambda s: s.frame_id)
        return [item for item in map(self._collect, order) if item is not None]


def process(frames):
    pipe = FramePipeline()
    done = [item for item in map(pipe.submit, frames) if item is not None]
    done.extend(pipe.drain())
    return done
