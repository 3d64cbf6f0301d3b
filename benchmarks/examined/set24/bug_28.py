"""Bit extraction on encrypted integers with cached scratch memory."""
from cuda import cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


class ScratchPool:
    """Free lists of device blocks, keyed by size."""

    def __init__(self):
        self._free = {}

    def acquire(self, nbytes):
        blocks = self._free.get(nbytes)
        if blocks:
            return blocks.pop()
        return check(cudart.cudaMalloc(nbytes))

    def release(self, ptr, nbytes):
        self._free.setdefault(nbytes, []).append(ptr)

    def trim(self):
        check(cudart.cudaDeviceSynchronize())
        for blocks in self._free.values():
            for ptr in blocks:
                check(cudart.cudaFree(ptr))
        self._free.clear()


class BitExtract:
    """One extraction: scratch, execution, cleanup."""

    def __init__(self, pool, lwe_bytes, n_bits):
        self.pool = pool
        self.lwe_bytes = lwe_bytes
        self.n_bits = n_bits
        self.nbytes = lwe_bytes * 2
        self.buffer = None

    def scratch(self):
        self.buffer = self.pool.acquire(self.nbytes)

    def execute(self, dst, src, stream):
        shifted = self.buffer
        rounded = self.buffer + self.lwe_bytes
        for bit in range(self.n_bits):
            check(cudart.cudaMemcpyAsync(shifted, src, self.lwe_bytes, D2D, stream))
            check(cudart.cudaMemsetAsync(rounded, bit, self.lwe_bytes, stream))
            check(cudart.cudaMemcpyAsync(dst + bit * self.lwe_bytes, shifted, self.lwe_bytes, D2D, stream))
            check(cudart.cudaMemcpyAsync(src, rounded, self.lwe_bytes, D2D, stream))

    def cleanup(self, stream):
        self.pool.release(self.buffer, self.nbytes)
        self.buffer = None


class Engine:
    def __init__(self, n_streams=2):
        self.pool = ScratchPool()
        self.streams = [check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
                        for _ in range(n_streams)]

    def extract_all(self, inputs, outputs, lwe_bytes, n_bits):
        for i, (src, dst) in enumerate(zip(inputs, outputs)):
            stream = self.streams[i % len(self.streams)]
            op = BitExtract(self.pool, lwe_bytes, n_bits)
            op.scratch()
            op.execute(dst, src, stream)
            op.cleanup(stream)
        for stream in self.streams:
            check(cudart.cudaStreamSynchronize(stream))


def main():
    lwe_bytes, n_bits, count = 4 << 20, 8, 32
    inputs = [check(cudart.cudaMalloc(lwe_bytes)) for _ in range(count)]
    outputs = [check(cudart.cudaMalloc(lwe_bytes * n_bits)) for _ in range(count)]
    for p in inputs:
        check(cudart.cudaMemset(p, 1, lwe_bytes))
    check(cudart.cudaDeviceSynchronize())
    engine = Engine()
    engine.extract_all(inputs, outputs, lwe_bytes, n_bits)
    engine.pool.trim()


if __name__ == "__main__":
    main()
