import numpy as np
import torch
import torch.nn.functional as F


class Slot:
    def __init__(self, height, width, device):
        self.host_in = torch.empty(height, width, 3, dtype=torch.uint8, pin_memory=True)
        self.host_out = torch.empty(height, width, 3, dtype=torch.uint8, pin_memory=True)
        self.dev_in = torch.empty(height, width, 3, dtype=torch.uint8, device=device)
        self.dev_out = torch.empty(height, width, 3, dtype=torch.uint8, device=device)
        self.uploaded = torch.cuda.Event()
        self.computed = torch.cuda.Event()
        self.downloaded = torch.cuda.Event()


class FramePipeline:
    def __init__(self, height, width, device="cuda", slots=3):
        self.device = torch.device(device, torch.cuda.current_device())
        self.slots = [Slot(height, width, self.device) for _ in range(slots)]
        kernel = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], device=self.device) / 16
        self.kernel = torch.outer(kernel, kernel).expand(3, 1, 5, 5).contiguous()
        torch.cuda.synchronize(self.device)
        self.up = torch.cuda.Stream(self.device)
        self.work = torch.cuda.Stream(self.device)
        self.down = torch.cuda.Stream(self.device)
        self.active = False

    def _launch(self, slot, frame):
        np.copyto(slot.host_in.numpy(), frame)
        with torch.cuda.stream(self.up):
            slot.dev_in.copy_(slot.host_in, non_blocking=True)
            slot.uploaded.record()
        with torch.cuda.stream(self.work):
            self.work.wait_event(slot.uploaded)
            image = slot.dev_in.permute(2, 0, 1).unsqueeze(0).float()
            blurred = F.conv2d(F.pad(image, (2, 2, 2, 2), mode="reflect"), self.kernel, groups=3)
            sharp = (2 * image - blurred).clamp_(0, 255)
            slot.dev_out.copy_(sharp.squeeze(0).permute(1, 2, 0))
            slot.computed.record()
        with torch.cuda.stream(self.down):
            self.down.wait_event(slot.computed)
            slot.host_out.copy_(slot.dev_out, non_blocking=True)
            slot.downloaded.record()

    def _collect(self, slot):
        slot.downloaded.synchronize()
        return slot.host_out.numpy().copy()

    def process(self, frames):
        if self.active:
            raise RuntimeError("pipeline is already running")
        self.active = True
        count = 0
        depth = len(self.slots)
        try:
            for frame in frames:
                slot = self.slots[count % depth]
                if count >= depth:
                    yield self._collect(slot)
                self._launch(slot, frame)
                count += 1
            for index in range(max(0, count - depth), count):
                yield self._collect(self.slots[index % depth])
        finally:
            for stream in (self.up, self.work, self.down):
                stream.synchronize()
            self.active = False


def frames(count, height, width):
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def main():
    pipeline = FramePipeline(480, 640)
    means = [out.mean() for out in pipeline.process(frames(20, 480, 640))]
    print(len(means), float(np.mean(means)))
    for index, out in enumerate(pipeline.process(frames(9, 480, 640))):
        if index == 2:
            break
    print(len(list(pipeline.process(frames(2, 480, 640)))), len(list(pipeline.process([]))))


if __name__ == "__main__":
    main()
