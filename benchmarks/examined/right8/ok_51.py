"""Tree reduction over several GPUs with peer copies."""
import cupy as cp
import numpy as np


class Node:
    def __init__(self, dev, n):
        self.dev = dev
        with cp.cuda.Device(dev):
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.ready = cp.cuda.Event(disable_timing=True)
            self.taken = cp.cuda.Event(disable_timing=True)
            with self.stream:
                self.value = cp.zeros(n, cp.float32)
                self.inbox = cp.zeros(n, cp.float32)

    def local(self, seed):
        with cp.cuda.Device(self.dev), self.stream:
            self.value += cp.float32(seed)
            self.ready.record(self.stream)

    def absorb(self, child):
        with cp.cuda.Device(self.dev), self.stream:
            self.stream.wait_event(child.ready)
            cp.cuda.runtime.memcpyPeerAsync(self.inbox.data.ptr, self.dev, child.value.data.ptr,
                                            child.dev, self.inbox.nbytes, self.stream.ptr)
            self.taken.record(self.stream)
            self.value += self.inbox
            self.ready.record(self.stream)
        with cp.cuda.Device(child.dev), child.stream:
            child.stream.wait_event(self.taken)
            child.value.fill(0)


def tree_reduce(nodes):
    span = 1
    while span < len(nodes):
        for i in range(0, len(nodes) - span, 2 * span):
            nodes[i].absorb(nodes[i + span])
        span *= 2
    return nodes[0]


def main(n=1 << 20, rounds=4):
    nodes = [Node(d, n) for d in range(cp.cuda.runtime.getDeviceCount())]
    for r in range(rounds):
        for node in nodes:
            node.local(node.dev + r)
        root = tree_reduce(nodes)
    with cp.cuda.Device(root.dev), root.stream:
        out = root.value.get()
    for node in nodes:
        with cp.cuda.Device(node.dev):
            node.stream.synchronize()
    return np.unique(out)


if __name__ == "__main__":
    print(main())
