"""Triple-buffered frame upload with modulo counters and three event lists."""
import numpy as np
import torch


class TripleBuffer:
    N = 3

    def __init__(self, shape, dtype=torch.float32):
        self.host = [torch.empty(shape, dtype=dtype, pin_memory=True) for _ in range(self.N)]
        self.dev = [torch.empty(shape, dtype=dtype, device="cuda") for _ in range(self.N)]
        self.copied = [torch.cuda.Event() for _ in range(self.N)]
        self.read = [torch.cuda.Event() for _ in range(self.N)]
        self.copier = torch.cuda.Stream()
        self.copier.wait_stream(torch.cuda.current_stream())
        self.head = 0
        self.tail = 0

    def push(self, frame: np.ndarray):
        k = self.head % self.N
        if self.head >= self.N:
            self.copied[k].synchronize()
            self.copier.wait_event(self.read[k])
        self.host[k].numpy()[...] = frame
        with torch.cuda.stream(self.copier):
            self.dev[k].copy_(self.host[k], non_blocking=True)
        self.copied[k].record(self.copier)
        self.head += 1

    def pop(self, consume):
        assert self.tail < self.head
        k = self.tail % self.N
        stream = torch.cuda.current_stream()
        stream.wait_event(self.copied[k])
        result = consume(self.dev[k])
        self.read[k].record(stream)
        self.tail += 1
        return result

    @property
    def room(self) -> bool:
        return self.head - self.tail < self.N


def frames(n, shape, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield rng.random(shape, dtype=np.float32)


def main():
    shape = (512, 512)
    ring = TripleBuffer(shape)
    window = torch.hann_window(512, device="cuda")
    energy = []
    source = frames(64, shape)
    done = False
    while True:
        while ring.room and not done:
            frame = next(source, None)
            if frame is None:
                done = True
            else:
                ring.push(frame)
        if ring.tail == ring.head:
            break
        energy.append(ring.pop(lambda f: torch.fft.rfft2(f * window).abs().square().mean()))
    print(torch.stack(energy).tolist()[:3])


if __name__ == "__main__":
    main()
