"""Two-GPU pipeline: encoder on device 0, decoder on device 1, peer copies between."""
import cupy as cp
import numpy as np


class Stage:
    def __init__(self, device, d_in, d_out, seed):
        self.device = device
        with cp.cuda.Device(device):
            self.stream = cp.cuda.Stream(non_blocking=True)
            rng = cp.random.RandomState(seed)
            self.w = rng.standard_normal((d_in, d_out), dtype=cp.float32) / np.float32(np.sqrt(d_in))
            cp.cuda.Device(device).synchronize()

    def forward(self, x):
        with cp.cuda.Device(self.device), self.stream:
            return cp.maximum(x @ self.w, 0)


class TwoGpuModel:
    def __init__(self, dims, hidden, batch):
        self.encoder = Stage(0, dims, hidden, 1)
        self.decoder = Stage(1, hidden, dims, 2)
        with cp.cuda.Device(1):
            self.inbox = cp.empty((batch, hidden), cp.float32)
            cp.cuda.Device(1).synchronize()
        self.hold = []

    def _transfer(self, code):
        with cp.cuda.Device(1):
            self.inbox.data.copy_from_device_async(code.data, code.nbytes, self.decoder.stream)
        self.hold.append(code)

    def step(self, batch):
        with cp.cuda.Device(0), self.encoder.stream:
            x = cp.asarray(batch)
        code = self.encoder.forward(x)
        self._transfer(code)
        y = self.decoder.forward(self.inbox)
        with cp.cuda.Device(1), self.decoder.stream:
            loss = float(y.mean())
        self.hold.clear()
        return loss


def main(dims=4096, hidden=2048, batch=1024):
    model = TwoGpuModel(dims, hidden, batch)
    rng = np.random.default_rng(0)
    for _ in range(100):
        print(model.step(rng.standard_normal((batch, dims), dtype=np.float32)))


if __name__ == "__main__":
    main()
