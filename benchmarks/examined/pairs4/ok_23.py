"""Out-of-core matrix product: a generator streams row blocks from a memmap."""
import numpy as np
import torch


class BlockPool:
    def __init__(self, rows, cols, count):
        self.free = [torch.empty(rows, cols, pin_memory=True) for _ in range(count)]

    def take(self):
        return self.free.pop()

    def give(self, block):
        self.free.append(block)


def device_blocks(matrix, rows, pool):
    """Yields (start, block) pairs; host memory goes back when the pass ends."""
    stream = torch.cuda.Stream()
    lanes = [(pool.take(), torch.cuda.Event()) for _ in range(2)]
    try:
        for k, start in enumerate(range(0, len(matrix), rows)):
            host, moved = lanes[k % 2]
            moved.synchronize()
            part = torch.from_numpy(matrix[start:start + rows])
            host[: len(part)].copy_(part)
            with torch.cuda.stream(stream):
                block = host[: len(part)].to("cuda", non_blocking=True)
                moved.record()
            torch.cuda.current_stream().wait_event(moved)
            block.record_stream(torch.cuda.current_stream())
            yield start, block
    finally:
        stream.synchronize()
        for host, _ in lanes:
            pool.give(host)


def first_above(matrix, vector, limit, pool):
    for start, block in device_blocks(matrix, 2048, pool):
        hit = (block @ vector > limit).nonzero()
        if hit.numel():
            return start + int(hit[0])
    return -1


def main():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((65536, 1024), dtype=np.float32)
    pool = BlockPool(2048, 1024, 2)
    for limit in (60.0, 90.0, 120.0, 150.0):
        vector = torch.randn(1024, device="cuda")
        print(limit, first_above(matrix, vector, limit, pool))


if __name__ == "__main__":
    main()
