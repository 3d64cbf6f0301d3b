"""Clip loader: a reader thread fills pinned slots, the trainer uploads them."""
import queue
import threading

import numpy as np
import torch


class ClipReader(threading.Thread):
    def __init__(self, slots, free, filled, total):
        super().__init__(daemon=True)
        self.slots, self.free, self.filled = slots, free, filled
        self.total = total

    def run(self):
        rng = np.random.default_rng(17)
        for _ in range(self.total):
            index, event = self.free.get()
            if event is not None:
                event.synchronize()
            view = self.slots[index].numpy()
            view[...] = rng.integers(0, 255, view.shape, dtype=np.uint8)
            self.filled.put(index)
        self.filled.put(None)


class ClipLoader:
    def __init__(self, shape=(16, 3, 224, 224), depth=4, total=200):
        self.stream = torch.cuda.Stream()
        self.slots = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(depth)]
        self.free = queue.Queue()
        self.filled = queue.Queue()
        for index in range(depth):
            self.free.put((index, None))
        self.reader = ClipReader(self.slots, self.free, self.filled, total)

    def __iter__(self):
        self.reader.start()
        while True:
            index = self.filled.get()
            if index is None:
                return
            with torch.cuda.stream(self.stream):
                clip = self.slots[index].to("cuda", non_blocking=True)
                uploaded = torch.cuda.Event()
                uploaded.record()
            self.free.put((index, uploaded))
            current = torch.cuda.current_stream()
            current.wait_stream(self.stream)
            clip.record_stream(current)
            yield clip


def main():
    model = torch.nn.Conv3d(3, 8, 3).cuda()
    score = torch.zeros((), device="cuda")
    with torch.no_grad():
        for clip in ClipLoader():
            video = clip.float().div_(255.0).transpose(0, 1).unsqueeze(0)
            score += model(video).mean()
    print(score.item())


if __name__ == "__main__":
    main()
