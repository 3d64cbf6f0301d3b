"""Frames from a capture thread are uploaded by a worker and consumed by the model thread."""
import queue
import threading

import torch


class Uploader(threading.Thread):
    def __init__(self, source, slots: int, shape):
        super().__init__(daemon=True)
        self.source = source
        self.stream = torch.cuda.Stream()
        self.ready: queue.Queue = queue.Queue()
        self.returned: queue.Queue = queue.Queue()
        for _ in range(slots):
            buf = torch.empty(shape, dtype=torch.uint8, device="cuda")
            pin = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
            used = torch.cuda.Event()
            used.record()
            self.returned.put((buf, pin, used))

    def run(self):
        for index, frame in enumerate(self.source):
            buf, pin, used = self.returned.get()
            used.synchronize()
            pin.copy_(frame)
            with torch.cuda.stream(self.stream):
                buf.copy_(pin, non_blocking=True)
                landed = torch.cuda.Event()
                landed.record()
            self.ready.put((index, buf, pin, landed))
        self.ready.put(None)

    def __iter__(self):
        while True:
            item = self.ready.get()
            if item is None:
                return
            index, buf, pin, landed = item
            torch.cuda.current_stream().wait_event(landed)
            yield index, buf
            used = torch.cuda.Event()
            used.record()
            self.returned.put((buf, pin, used))


def camera(n, shape):
    for i in range(n):
        yield torch.full(shape, i % 256, dtype=torch.uint8)


def main():
    shape = (3, 720, 1280)
    up = Uploader(camera(300, shape), slots=3, shape=shape)
    net = torch.nn.Conv2d(3, 8, 5, stride=4).cuda().eval()
    score = torch.zeros((), device="cuda")
    up.start()
    with torch.inference_mode():
        for index, frame in up:
            x = frame.float().div_(255).unsqueeze(0)
            score += net(x).relu().mean()
    up.join()
    print(score.item())


if __name__ == "__main__":
    main()
