"""Ring sum of per-device vectors; each hop is pulled by the receiver after an event of the sender."""
import cupy as cp
import numpy as np

NUM_DEVICES = cp.cuda.runtime.getDeviceCount()


class Peer:
    def __init__(self, device_id, n):
        self.id = device_id
        with cp.cuda.Device(device_id):
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.produced = cp.cuda.Event(disable_timing=True)
            self.pulled = cp.cuda.Event(disable_timing=True)
            with self.stream:
                self.acc = cp.zeros(n, dtype=cp.float64)
                self.inbox = cp.empty(n, dtype=cp.float64)

    def compute(self, rounds):
        with cp.cuda.Device(self.id), self.stream:
            x = cp.arange(self.acc.size, dtype=cp.float64) * (self.id + 1)
            for r in range(rounds):
                self.acc += cp.cos(x * (r + 1))
            self.produced.record(self.stream)

    def pull_from(self, other):
        with cp.cuda.Device(self.id), self.stream:
            self.stream.wait_event(other.produced)
            cp.cuda.runtime.memcpyPeerAsync(
                self.inbox.data.ptr, self.id, other.acc.data.ptr, other.id,
                other.acc.nbytes, self.stream.ptr)
            self.pulled.record(self.stream)
            self.acc += self.inbox
            self.produced.record(self.stream)

    def reset_after(self, other):
        with cp.cuda.Device(self.id), self.stream:
            self.stream.wait_event(other.pulled)
            self.acc.fill(0)


class Ring:
    def __init__(self, n):
        self.peers = [Peer(i, n) for i in range(NUM_DEVICES)]
        for i in range(NUM_DEVICES):
            with cp.cuda.Device(i):
                for j in range(NUM_DEVICES):
                    if i != j and cp.cuda.runtime.deviceCanAccessPeer(i, j):
                        cp.cuda.runtime.deviceEnablePeerAccess(j)

    def reduce(self, rounds):
        for p in self.peers:
            p.compute(rounds)
        for left, right in zip(self.peers, self.peers[1:]):
            right.pull_from(left)
            left.reset_after(right)
        last = self.peers[-1]
        with cp.cuda.Device(last.id), last.stream:
            out = cp.asnumpy(last.acc)
            last.acc.fill(0)
        return out


def reference(n, rounds):
    total = np.zeros(n)
    for d in range(NUM_DEVICES):
        x = np.arange(n) * (d + 1)
        for r in range(rounds):
            total += np.cos(x * (r + 1))
    return total


def main():
    n = 1 << 20
    ring = Ring(n)
    errs = []
    for rounds in (2, 5, 9):
        got = ring.reduce(rounds)
        errs.append(float(np.abs(got - reference(n, rounds)).max()))
    print(NUM_DEVICES, errs)


if __name__ == "__main__":
    main()
