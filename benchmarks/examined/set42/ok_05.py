"""Exchange build over auxiliary blocks: uploads on a stream, contraction on the default one."""
import cupy as cp
import numpy as np


def pinned(shape, dtype=np.float64):
    count = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype, count).reshape(shape)


class HostIntegrals:
    def __init__(self, naux, nao):
        self.array = pinned((naux, nao, nao))
        rng = np.random.default_rng(7)
        self.array[...] = rng.standard_normal((naux, nao, nao))
        self.array += self.array.transpose(0, 2, 1)

    def blocks(self, size):
        for p0 in range(0, len(self.array), size):
            yield self.array[p0:p0 + size]


class Uploader:
    """Plain (blocking) stream, so that it and the legacy default stream take turns."""

    def __init__(self, size, nao):
        self.stream = cp.cuda.Stream()
        self.buf = cp.empty((size, nao, nao))

    def fetch(self, host_block):
        view = self.buf[: len(host_block)]
        view.set(host_block, stream=self.stream)
        return view


class ExchangeBuilder:
    def __init__(self, ints, size):
        self.ints = ints
        self.size = size
        self.uploader = Uploader(size, ints.array.shape[1])

    def get_k(self, mo):
        mo = cp.asarray(mo)
        nao = mo.shape[0]
        vk = cp.zeros((nao, nao))
        for host_block in self.ints.blocks(self.size):
            block = self.uploader.fetch(host_block)
            half = cp.tensordot(block, mo, axes=(2, 0))
            flat = half.transpose(1, 0, 2).reshape(nao, -1)
            vk += flat @ flat.T
        return vk.get()


def scf(builder, nao, nocc, cycles):
    mo = np.linalg.qr(np.random.default_rng(0).standard_normal((nao, nocc)))[0]
    energy = 0.0
    for _ in range(cycles):
        vk = builder.get_k(mo)
        energy = float(np.einsum("pi,pq,qi->", mo, vk, mo))
        mo = np.linalg.eigh(vk)[1][:, -nocc:]
    return energy


def main():
    ints = HostIntegrals(300, 48)
    print(scf(ExchangeBuilder(ints, 64), 48, 10, 4))


if __name__ == "__main__":
    main()
