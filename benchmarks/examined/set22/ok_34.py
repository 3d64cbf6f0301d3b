"""Side-stream reduce with a FIFO of held buffers instead of record_stream."""
from collections import deque

import torch


class ReduceState:
    def __init__(self, depth=2):
        self.depth = depth
        self.comm_stream = torch.cuda.Stream()
        self.held = deque()

    def acquire(self, shape, dtype):
        while len(self.held) >= self.depth:
            _, done = self.held[0]
            torch.cuda.current_stream().wait_event(done)
            self.held.popleft()
        return torch.empty(shape, dtype=dtype, device="cuda")

    def reduce(self, buf, out):
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            out.add_(buf.sum(dim=0))
            done = torch.cuda.Event()
            done.record()
        self.held.append((buf, done))

    def drain(self):
        while self.held:
            _, done = self.held[0]
            torch.cuda.current_stream().wait_event(done)
            self.held.popleft()


def backward_chunk(weights, grad, buf):
    torch.mul(weights, grad, out=buf)
    buf.tanh_()


def main():
    state = ReduceState()
    layers, world, n = 12, 8, 1 << 20
    weights = torch.randn(layers, world, n, device="cuda")
    totals = torch.zeros(layers, n, device="cuda")
    for step in range(5):
        for layer in reversed(range(layers)):
            buf = state.acquire((world, n), torch.float32)
            backward_chunk(weights[layer], 0.1 * (step + 1), buf)
            state.reduce(buf, totals[layer])
            del buf
        state.drain()
        weights.sub_(totals.unsqueeze(1), alpha=1e-3)
        totals.zero_()
    print(float(weights.mean()))


if __name__ == "__main__":
    main()
