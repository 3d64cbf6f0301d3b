"""Density-fitted Coulomb build over several GPUs with CuPy."""
import cupy as cp
import numpy as np

NUM_DEVICES = cp.cuda.runtime.getDeviceCount()
_streams = [None] * NUM_DEVICES

unpack_tril = cp.ElementwiseKernel(
    "int64 nao, int64 npair, raw float64 packed", "float64 full",
    """
    long long p = i / (nao * nao);
    long long r = (i / nao) % nao;
    long long c = i % nao;
    long long a = r > c ? r : c;
    long long b = r > c ? c : r;
    full = packed[p * npair + a * (a + 1) / 2 + b];
    """, "unpack_tril")


def device_stream(device_id):
    if _streams[device_id] is None:
        with cp.cuda.Device(device_id):
            _streams[device_id] = cp.cuda.Stream(non_blocking=True)
    return _streams[device_id]


class CDERI:
    """Packed three-center integrals, split over devices by auxiliary index."""

    def __init__(self, nao, naux, blksize):
        self.nao = nao
        self.npair = nao * (nao + 1) // 2
        self.blksize = blksize
        self.parts = []
        for dev, rows in enumerate(np.array_split(np.arange(naux), NUM_DEVICES)):
            with cp.cuda.Device(dev) as d:
                self.parts.append(cp.random.standard_normal((len(rows), self.npair)))
                d.synchronize()

    def loop(self, device_id):
        packed = self.parts[device_id]
        stream = device_stream(device_id)
        naux = packed.shape[0]
        full = cp.empty((self.blksize, self.nao, self.nao))
        for p0 in range(0, naux, self.blksize):
            p1 = min(p0 + self.blksize, naux)
            block = full[: p1 - p0]
            unpack_tril(self.nao, self.npair, packed[p0:p1], block, stream=stream)
            yield block


class CoulombBuilder:
    def __init__(self, cderi):
        self.cderi = cderi

    def _device_task(self, device_id, dm_host):
        with cp.cuda.Device(device_id):
            dm = cp.asarray(dm_host)
            vj = cp.zeros_like(dm)
            for block in self.cderi.loop(device_id):
                rho = cp.tensordot(block, dm, axes=([1, 2], [0, 1]))
                vj += cp.tensordot(rho, block, axes=(0, 0))
            device_stream(device_id).synchronize()
            return vj.get()

    def get_j(self, dm_host):
        vj = np.zeros_like(dm_host)
        for device_id in range(NUM_DEVICES):
            vj += self._device_task(device_id, dm_host)
        return vj


def main():
    nao = 64
    builder = CoulombBuilder(CDERI(nao, 512, 96))
    dm = np.eye(nao)
    for _ in range(3):
        vj = builder.get_j(dm)
        dm = vj / np.linalg.norm(vj)
    print(np.trace(dm))


if __name__ == "__main__":
    main()
