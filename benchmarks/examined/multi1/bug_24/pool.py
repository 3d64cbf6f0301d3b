import torch


class BufferPool:
    def __init__(self, count, shape, dtype=torch.float32):
        self.shape = tuple(shape)
        self.free = [torch.empty(self.shape, dtype=dtype, pin_memory=True) for _ in range(count)]
        self.taken = 0

    def take(self):
        if not self.free:
            raise RuntimeError("pool is empty")
        self.taken += 1
        return self.free.pop()

    def give(self, buf):
        if tuple(buf.shape) != self.shape:
            raise ValueError("foreign buffer")
        self.free.append(buf)

    def fill(self, values):
        buf = self.take()
        buf.copy_(values)
        return buf

    def __len__(self):
        return len(self.free)
