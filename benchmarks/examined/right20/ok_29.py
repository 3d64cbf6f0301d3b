import math

import torch


class Uploader:
    LIMIT = 1 << 18

    def __init__(self, lanes=4):
        self.lanes = [torch.cuda.Stream() for _ in range(lanes)]
        self.large = 0

    def plan(self, numel):
        return min(len(self.lanes), math.ceil(numel / self.LIMIT))

    def upload(self, host):
        pieces = self.plan(host.numel())
        dev = torch.empty(host.shape, dtype=host.dtype, device="cuda")
        here = torch.cuda.current_stream()
        if pieces <= 1:
            dev.copy_(host, non_blocking=True)
        else:
            step = math.ceil(host.numel() / pieces)
            flat_h, flat_d = host.view(-1), dev.view(-1)
            for n in range(pieces):
                lane = self.lanes[n]
                lane.wait_stream(here)
                with torch.cuda.stream(lane):
                    part = slice(n * step, (n + 1) * step)
                    flat_d[part].copy_(flat_h[part], non_blocking=True)
            self.large += 1
        return dev, pieces

    def finish(self, pieces):
        if pieces >= 2:
            here = torch.cuda.current_stream()
            for lane in self.lanes[:pieces]:
                here.wait_stream(lane)


class Index:
    def __init__(self, dim):
        self.dim = dim
        self.up = Uploader()
        self.blocks = []

    def add(self, rows):
        host = torch.randn(rows, self.dim).pin_memory()
        dev, pieces = self.up.upload(host)
        self.up.finish(pieces)
        dev /= dev.norm(dim=1, keepdim=True)
        self.blocks.append(dev)

    def query(self, q, k):
        best = [(q @ b.T).topk(min(k, len(b))).values for b in self.blocks]
        return torch.cat(best, dim=1).topk(k).values


def main():
    index = Index(64)
    for rows in (100, 3000, 20000, 7, 60000):
        index.add(rows)
    q = torch.nn.functional.normalize(torch.randn(5, 64, device="cuda"), dim=1)
    print(index.up.large, index.query(q, 4).tolist())


if __name__ == "__main__":
    main()
