"""Image pipeline whose stages live on their own streams and share leased buffers."""
from collections import defaultdict

import torch
import torch.nn.functional as F


class Lease:
    def __init__(self, tensor):
        self.tensor = tensor
        self.marks = []


class LeasePool:
    def __init__(self, limit):
        self.limit = limit
        self.idle = defaultdict(list)
        self.made = defaultdict(list)

    def take(self, shape, dtype):
        key = (tuple(shape), dtype)
        stream = torch.cuda.current_stream()
        if len(self.made[key]) < self.limit:
            lease = Lease(torch.empty(shape, dtype=dtype, device="cuda"))
            self.made[key].append(lease)
            return lease
        lease = self.idle[key].pop(0)
        for mark in lease.marks:
            stream.wait_event(mark)
        lease.marks.clear()
        return lease

    def give(self, lease):
        mark = torch.cuda.Event()
        mark.record(torch.cuda.current_stream())
        lease.marks.append(mark)
        key = (tuple(lease.tensor.shape), lease.tensor.dtype)
        self.idle[key].append(lease)


class Stage:
    def __init__(self, pool):
        self.pool = pool
        self.stream = torch.cuda.Stream()

    def after(self, other):
        self.stream.wait_stream(other.stream)


class Upload(Stage):
    def run(self, image):
        with torch.cuda.stream(self.stream):
            lease = self.pool.take(image.shape, torch.uint8)
            lease.tensor.copy_(image.pin_memory(), non_blocking=True)
        return lease


class Normalise(Stage):
    def __init__(self, pool):
        super().__init__(pool)
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor([118.0, 112.0, 104.0], device="cuda").view(1, 3, 1, 1)

    def run(self, raw):
        with torch.cuda.stream(self.stream):
            lease = self.pool.take(raw.tensor.shape, torch.float32)
            torch.sub(raw.tensor, self.mean, out=lease.tensor)
            lease.tensor.div_(58.0)
            self.pool.give(raw)
        return lease


class Pyramid(Stage):
    def __init__(self, pool, levels):
        super().__init__(pool)
        self.levels = levels

    def run(self, image):
        energies = []
        with torch.cuda.stream(self.stream):
            level = image.tensor
            for _ in range(self.levels):
                smaller = F.avg_pool2d(level, 2)
                back = F.interpolate(smaller, scale_factor=2, mode="nearest")
                energies.append((level - back).square().mean())
                level = smaller
            self.pool.give(image)
            return torch.stack(energies)


def main(frames=250):
    pool = LeasePool(limit=3)
    upload, norm, pyramid = Upload(pool), Normalise(pool), Pyramid(pool, 4)
    gen = torch.Generator().manual_seed(2)
    curve = []
    for _ in range(frames):
        image = torch.randint(0, 256, (1, 3, 512, 512), dtype=torch.uint8, generator=gen)
        raw = upload.run(image)
        norm.after(upload)
        image = norm.run(raw)
        pyramid.after(norm)
        curve.append(pyramid.run(image))
    pyramid.stream.synchronize()
    with torch.cuda.stream(pyramid.stream):
        table = torch.stack(curve).cpu()
    print(table.mean(dim=0).tolist())


if __name__ == "__main__":
    main()
