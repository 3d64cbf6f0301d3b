"""Two-GPU pipeline without peer access: activations cross through page-locked host memory."""
import cupy as cp
import cupyx
import numpy as np
from cupy.cuda import runtime

PIECE = 1 << 20


class Rank:
    """A device with the stream that all its work uses."""

    def __init__(self, device_id):
        self.device = cp.cuda.Device(device_id)
        with self.device:
            self.stream = cp.cuda.Stream(non_blocking=True)

    def __enter__(self):
        self.device.__enter__()
        self.stream.__enter__()
        return self

    def __exit__(self, *args):
        self.stream.__exit__(*args)
        self.device.__exit__(*args)


class Crossing:
    """Moves a buffer from one rank to another in pieces, so that the two copies overlap."""

    def __init__(self, source, target, nbytes):
        self.source, self.target = source, target
        self.nbytes = nbytes
        self.staging = cupyx.empty_pinned(nbytes, dtype=np.uint8)
        self.pieces = (nbytes + PIECE - 1) // PIECE
        with source.device:
            self.fences = [cp.cuda.Event(disable_timing=True) for _ in range(self.pieces)]

    def transfer(self, dst, src):
        base = self.staging.ctypes.data
        for piece in range(self.pieces):
            offset = piece * PIECE
            length = min(PIECE, self.nbytes - offset)
            with self.source.device:
                runtime.memcpyAsync(
                    base + offset, src.data.ptr + offset, length,
                    runtime.memcpyDeviceToHost, self.source.stream.ptr,
                )
                self.fences[piece].record(self.source.stream)
            with self.target.device:
                self.target.stream.wait_event(self.fences[piece])
                runtime.memcpyAsync(
                    dst.data.ptr + offset, base + offset, length,
                    runtime.memcpyHostToDevice, self.target.stream.ptr,
                )


class Stage:
    def __init__(self, rank, layers, width, batch, seed):
        self.rank = rank
        rng = np.random.default_rng(seed)
        with rank:
            self.weights = [
                cp.asarray(rng.standard_normal((width, width), dtype=np.float32) / width ** 0.5)
                for _ in range(layers)
            ]
            self.input = cp.zeros((batch, width), dtype=cp.float32)
            self.output = cp.zeros((batch, width), dtype=cp.float32)
        rank.stream.synchronize()

    def forward(self):
        with self.rank:
            x = self.input
            for weight in self.weights:
                x = cp.tanh(x @ weight)
            self.output[...] = x


class TwoStageModel:
    def __init__(self, first_layers=4, second_layers=20, width=4096, batch=512):
        self.first = Stage(Rank(0), first_layers, width, batch, seed=1)
        self.second = Stage(Rank(1), second_layers, width, batch, seed=2)
        self.crossing = Crossing(self.first.rank, self.second.rank, self.first.output.nbytes)
        self.totals = []

    def step(self, micro_batch):
        a, b = self.first, self.second
        with a.rank:
            a.input.set(micro_batch, stream=a.rank.stream)
        a.forward()
        self.crossing.transfer(b.input, a.output)
        b.forward()
        with b.rank:
            self.totals.append(b.output.sum())

    def finish(self):
        self.first.rank.stream.synchronize()
        self.second.rank.stream.synchronize()
        with self.second.rank:
            return [float(t) for t in self.totals]


def main():
    rng = np.random.default_rng(0)
    model = TwoStageModel()
    for _ in range(32):
        model.step(rng.standard_normal((512, 4096), dtype=np.float32))
    print(model.finish()[-1])


if __name__ == "__main__":
    main()
