"""Frame pool between a decoder thread and an inference loop, both with streams of their own."""
import queue
import threading

import numpy as np
import torch


class Frame:
    __slots__ = ("host", "device", "ready", "released", "index")

    def __init__(self, shape, device):
        self.host = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.device = torch.empty(shape, dtype=torch.uint8, device=device)
        self.ready = torch.cuda.Event()
        self.released = torch.cuda.Event()
        self.index = -1


class FramePool:
    def __init__(self, depth, shape, device):
        self._free = queue.Queue()
        for _ in range(depth):
            self._free.put(Frame(shape, device))
        torch.cuda.current_stream(device).synchronize()

    def acquire(self, stream):
        frame = self._free.get()
        stream.wait_event(frame.released)
        return frame

    def release(self, frame, stream):
        frame.released.record(stream)
        self._free.put(frame)


class DecoderThread(threading.Thread):
    def __init__(self, source, pool, device):
        super().__init__(daemon=True)
        self.source = source
        self.pool = pool
        self.device = device
        self.out = queue.Queue()

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            for index, picture in enumerate(self.source):
                frame = self.pool.acquire(stream)
                frame.ready.synchronize()
                frame.host.numpy()[...] = picture
                frame.device.copy_(frame.host, non_blocking=True)
                frame.ready.record(stream)
                frame.index = index
                self.out.put(frame)
        self.out.put(None)


class Detector:
    def __init__(self, model, shape, device="cuda:0", depth=4):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.shape = shape
        self.depth = depth
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    @torch.no_grad()
    def run(self, source):
        pool = FramePool(self.depth, self.shape, self.device)
        decoder = DecoderThread(source, pool, self.device)
        decoder.start()
        results = []
        with torch.cuda.stream(self.stream):
            while True:
                frame = decoder.out.get()
                if frame is None:
                    break
                self.stream.wait_event(frame.ready)
                x = frame.device.permute(2, 0, 1).unsqueeze(0).float().div_(255.0)
                pool.release(frame, self.stream)
                results.append(self.model(x).amax())
            scores = torch.stack(results).cpu()
        decoder.join()
        return scores


def main():
    shape = (720, 1280, 3)
    rng = np.random.default_rng(0)
    source = (rng.integers(0, 255, shape, dtype=np.uint8) for _ in range(100))
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 7, 4), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 5, 2)
    )
    print(Detector(model, shape).run(source).mean())


if __name__ == "__main__":
    main()
