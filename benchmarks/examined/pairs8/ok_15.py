import queue
import threading

import av
import numpy as np
import torch


class FrameReader(threading.Thread):
    """Decodes on the CPU into page-locked slots."""

    def __init__(self, path, slots, height, width):
        super().__init__(daemon=True)
        self.path = path
        self.buffers = [torch.empty(height, width, 3, dtype=torch.uint8, pin_memory=True) for _ in range(slots)]
        self.free = queue.Queue()
        self.ready = queue.Queue()
        for i in range(slots):
            self.free.put(i)

    def run(self):
        with av.open(self.path) as container:
            for frame in container.decode(video=0):
                index = self.free.get()
                np.copyto(self.buffers[index].numpy(), frame.to_ndarray(format="rgb24"))
                self.ready.put(index)
        self.ready.put(None)


class Analyzer:
    def __init__(self, reader, model):
        self.reader = reader
        self.model = model
        self.in_flight = []

    def _release(self, keep):
        while len(self.in_flight) > keep:
            event, index = self.in_flight.pop(0)
            event.synchronize()
            self.reader.free.put(index)

    @torch.inference_mode()
    def run(self):
        scores = []
        while (index := self.reader.ready.get()) is not None:
            frame = self.reader.buffers[index].to("cuda", non_blocking=True)
            uploaded = torch.cuda.Event()
            uploaded.record()
            self.in_flight.append((uploaded, index))
            x = frame.permute(2, 0, 1)[None].float() / 255.0
            scores.append(self.model(x).flatten())
            self._release(keep=1)
        self._release(keep=0)
        return torch.stack(scores).cpu()


def main():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)
    ).cuda()
    reader = FrameReader("clip.mp4", 4, 720, 1280)
    reader.start()
    print(Analyzer(reader, model).run().shape)


if __name__ == "__main__":
    main()
