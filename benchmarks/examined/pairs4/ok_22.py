"""Context manager that lends page-locked memory for mesh transfers."""
import contextlib

import numpy as np
import torch


class Lender:
    def __init__(self, nbytes, count=2):
        self.blocks = [torch.empty(nbytes, dtype=torch.uint8, pin_memory=True) for _ in range(count)]

    @contextlib.contextmanager
    def lend(self, shape, dtype):
        block = self.blocks.pop()
        moved = torch.cuda.Event()
        try:
            count = int(np.prod(shape)) * dtype.itemsize
            yield block[:count].view(dtype).view(shape)
        finally:
            moved.record()
            moved.synchronize()
            self.blocks.append(block)


class MeshStore:
    def __init__(self):
        self.lender = Lender(64 << 20)
        self.meshes = {}

    def add(self, name, vertices):
        with self.lender.lend(vertices.shape, torch.float32) as staging:
            np.copyto(staging.numpy(), vertices)
            self.meshes[name] = staging.to("cuda", non_blocking=True)

    def bounds(self):
        return {n: (m.amin(0), m.amax(0)) for n, m in self.meshes.items()}

    def snapshot(self, name):
        mesh = self.meshes[name]
        with self.lender.lend(mesh.shape, torch.float32) as staging:
            staging.copy_(mesh, non_blocking=True)
            torch.cuda.current_stream().synchronize()
            return staging.numpy().copy()


def main():
    rng = np.random.default_rng(0)
    store = MeshStore()
    for i in range(40):
        store.add(f"part{i}", rng.standard_normal((200_000, 3)).astype(np.float32))
    lo, hi = store.bounds()["part7"]
    print(lo.tolist(), hi.tolist(), store.snapshot("part3").mean())


if __name__ == "__main__":
    main()
