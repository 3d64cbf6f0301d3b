"""Column exchange between two pipelines: the receiver's pool owns the block that the sender writes."""
from collections import deque

import cupy as cp
import numpy as np


class Endpoint:
    def __init__(self, n: int, slots: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.slots = deque((cp.empty(n, cp.float32), self.stream.record()) for _ in range(slots))
            self.state = cp.zeros(n, cp.float32)

    def lend(self):
        return self.slots.popleft()

    def give_back(self, block: cp.ndarray):
        self.slots.append((block, self.stream.record()))


class Link:
    """Moves blocks from `src` to `dst`; a block travels with the event of its last operation."""

    def __init__(self, src: Endpoint, dst: Endpoint):
        self.src, self.dst = src, dst
        self.wire: deque = deque()

    def send(self, make):
        block, free = self.dst.lend()
        self.src.stream.wait_event(free)
        with self.src.stream:
            make(block)
        self.wire.append((block, self.src.stream.record()))

    def receive(self, use):
        block, full = self.wire.popleft()
        self.dst.stream.wait_event(full)
        with self.dst.stream:
            use(block)
        self.dst.give_back(block)


def main(n=1 << 20, steps=60):
    left, right = Endpoint(n, 3), Endpoint(n, 2)
    there, back = Link(left, right), Link(right, left)
    with left.stream:
        left.state += cp.linspace(0, 1, n, dtype=cp.float32)
    for _ in range(steps):
        there.send(lambda b: cp.sin(left.state, out=b))
        there.receive(lambda b: cp.add(right.state, b, out=right.state))
        back.send(lambda b: cp.multiply(right.state, np.float32(0.05), out=b))
        back.receive(lambda b: cp.subtract(left.state, b, out=left.state))
    for end in (left, right):
        host = end.state.get(stream=end.stream)
        end.stream.synchronize()
        print(host.mean())


if __name__ == "__main__":
    main()
