import queue
import threading

import numpy as np
import torch

END = object()


class Decoder(threading.Thread):
    def __init__(self, source, spare, out):
        super().__init__(daemon=True)
        self.source, self.spare, self.out = source, spare, out

    def run(self):
        for image in self.source:
            frame = self.spare.get()
            frame.numpy()[...] = image
            self.out.put(frame)
        self.out.put(END)


class Uploader(threading.Thread):
    def __init__(self, frames, spare, out):
        super().__init__(daemon=True)
        self.frames, self.spare, self.out = frames, spare, out
        self.stream = torch.cuda.Stream()

    def run(self):
        with torch.cuda.stream(self.stream):
            while (frame := self.frames.get()) is not END:
                dev = frame.to("cuda", non_blocking=True)
                arrived = self.stream.record_event()
                self.out.put((dev, arrived))
                arrived.synchronize()
                self.spare.put(frame)
        self.out.put(END)


class Upscaler(threading.Thread):
    def __init__(self, net, inbox, out):
        super().__init__(daemon=True)
        self.net, self.inbox, self.out = net, inbox, out
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def _process(self, dev):
        x = dev.permute(2, 0, 1)[None].float() / 255
        y = self.net(x).clamp(0, 1).mul(255).byte()
        return y[0].permute(1, 2, 0).contiguous()

    @torch.no_grad()
    def run(self):
        with torch.cuda.stream(self.stream):
            while (item := self.inbox.get()) is not END:
                dev, arrived = item
                self.stream.wait_event(arrived)
                dev.record_stream(self.stream)
                host = self._process(dev).to("cpu", non_blocking=True)
                self.stream.synchronize()
                self.out.put(host.numpy().copy())
        self.out.put(END)


def run(source, shape=(270, 480, 3)):
    spare, decoded = queue.Queue(), queue.Queue(maxsize=4)
    uploaded, done = queue.Queue(maxsize=2), queue.Queue(maxsize=4)
    for _ in range(6):
        spare.put(torch.empty(shape, dtype=torch.uint8, pin_memory=True))
    net = torch.nn.Sequential(torch.nn.Upsample(scale_factor=2), torch.nn.Conv2d(3, 3, 3, padding=1)).cuda()
    threads = [Decoder(source, spare, decoded), Uploader(decoded, spare, uploaded), Upscaler(net, uploaded, done)]
    for t in threads:
        t.start()
    while (image := done.get()) is not END:
        yield image
    for t in threads:
        t.join()


if __name__ == "__main__":
    clip = (np.random.randint(0, 255, (270, 480, 3), dtype=np.uint8) for _ in range(100))
    print(sum(int(f[0, 0, 0]) for f in run(clip)))
