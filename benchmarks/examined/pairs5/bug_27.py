"""Workspace pool for batched spectral estimates running on several streams."""
from collections import defaultdict
import torch


class Workspace:
    def __init__(self, pool, size):
        self.pool, self.size = pool, size
        self.data = torch.empty(size, dtype=torch.complex64, device="cuda")

    def view(self, *shape):
        n = 1
        for s in shape:
            n *= s
        return self.data[:n].view(*shape)

    def release(self):
        self.pool.put(self)


class WorkspacePool:
    def __init__(self):
        self.idle = defaultdict(list)
        self.created = 0

    def get(self, numel):
        size = 1 << (numel - 1).bit_length()
        if self.idle[size]:
            return self.idle[size].pop()
        self.created += 1
        return Workspace(self, size)

    def put(self, ws):
        self.idle[ws.size].append(ws)


class Periodogram:
    def __init__(self, pool, nfft, lanes=3):
        self.pool, self.nfft = pool, nfft
        self.window = torch.hann_window(nfft, device="cuda")
        self.lanes = [torch.cuda.Stream() for _ in range(lanes)]
        self.turn = 0

    def submit(self, x, out):
        lane = self.lanes[self.turn % len(self.lanes)]
        self.turn += 1
        lane.wait_stream(torch.cuda.current_stream())
        segments = x.numel() // self.nfft
        ws = self.pool.get(segments * (self.nfft // 2 + 1))
        with torch.cuda.stream(lane):
            spec = ws.view(segments, self.nfft // 2 + 1)
            torch.fft.rfft(x.view(segments, self.nfft) * self.window, out=spec)
            out.copy_(spec.abs().square().mean(0))
        ws.release()

    def finish(self):
        for lane in self.lanes:
            torch.cuda.current_stream().wait_stream(lane)


def main():
    pool = WorkspacePool()
    pg = Periodogram(pool, 4096)
    records = [torch.randn(4096 * 512, device="cuda") for _ in range(24)]
    result = torch.zeros(24, 2049, device="cuda")
    for x, out in zip(records, result):
        pg.submit(x, out)
    pg.finish()
    print(pool.created, result.mean().item())


if __name__ == "__main__":
    main()
