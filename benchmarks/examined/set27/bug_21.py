"""Sampling server: neighbour sampling followed by a feature-cache lookup, one slot per in-flight batch."""
import argparse

import cupy as cp
import numpy as np

SAMPLE_SRC = r"""
extern "C" __global__
void sample_neighbors(const long long* indptr, const long long* indices,
                      const long long* seeds, long long* out,
                      int n, int fanout, unsigned long long rng) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * fanout) return;
    long long v = seeds[i / fanout];
    long long deg = indptr[v + 1] - indptr[v];
    unsigned long long r = (rng + 0x9E3779B97F4A7C15ull * (i + 1)) >> 13;
    out[i] = deg > 0 ? indices[indptr[v] + r % deg] : v;
}
"""


class SamplingServer:
    def __init__(self, indptr, indices, features, batch_size, fanout, slots=2):
        self.indptr = cp.asarray(indptr)
        self.indices = cp.asarray(indices)
        self.features = cp.asarray(features)
        self.batch_size = batch_size
        self.fanout = fanout
        self.slots = slots
        n = batch_size * fanout
        self.seeds = [cp.zeros(batch_size, dtype=cp.int64) for _ in range(slots)]
        self.ids = [cp.zeros(n, dtype=cp.int64) for _ in range(slots)]
        self.batches = [cp.zeros((n, features.shape[1]), dtype=cp.float32) for _ in range(slots)]
        self.streams = [
            (cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True))
            for _ in range(slots)
        ]
        self.events = [
            (cp.cuda.Event(disable_timing=True), cp.cuda.Event(disable_timing=True))
            for _ in range(slots)
        ]
        self.sample = cp.RawKernel(SAMPLE_SRC, "sample_neighbors")
        cp.cuda.Device().synchronize()

    def submit(self, it, seeds_host):
        slot = it % self.slots
        sampler, lookup = self.streams[slot]
        sampled, looked_up = self.events[slot]
        n = self.batch_size * self.fanout

        with sampler:
            self.seeds[slot].set(seeds_host, stream=sampler)
            self.sample(((n + 255) // 256,), (256,),
                        (self.indptr, self.indices, self.seeds[slot], self.ids[slot],
                         np.int32(self.batch_size), np.int32(self.fanout), np.uint64(it)))
            sampled.record(sampler)

        sampler.wait_event(looked_up)
        with lookup:
            cp.take(self.features, self.ids[slot], axis=0, out=self.batches[slot])
            looked_up.record(lookup)
        return slot

    def fetch(self, slot):
        lookup = self.streams[slot][1]
        out = self.batches[slot].get(stream=lookup)
        lookup.synchronize()
        return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--iters", type=int, default=64)
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    degree = rng.integers(1, 32, args.nodes)
    indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
    indices = rng.integers(0, args.nodes, indptr[-1]).astype(np.int64)
    features = rng.standard_normal((args.nodes, 128), dtype=np.float32)

    server = SamplingServer(indptr, indices, features, batch_size=8000, fanout=10)
    pending = server.submit(0, rng.integers(0, args.nodes, 8000))
    checksum = 0.0
    for it in range(1, args.iters):
        following = server.submit(it, rng.integers(0, args.nodes, 8000))
        checksum += float(server.fetch(pending).sum())
        pending = following
    checksum += float(server.fetch(pending).sum())
    print("checksum", checksum)


if __name__ == "__main__":
    main()
