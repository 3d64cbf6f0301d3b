"""Backend unit check: fill a VRAM block with a pattern, move it through the copy engine."""
import ctypes

from cuda.bindings import runtime as cudart


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest


class MemDesc:
    def __init__(self, kind, size):
        self.kind = kind
        self.size = size
        if kind == "vram":
            self.addr = check(cudart.cudaMalloc(size))
        else:
            self.addr = check(cudart.cudaHostAlloc(size, 0))

    def fill(self, byte):
        if self.kind == "vram":
            check(cudart.cudaMemset(self.addr, byte, self.size))
        else:
            ctypes.memset(int(self.addr), byte, self.size)

    def matches(self, byte):
        assert self.kind == "dram"
        raw = (ctypes.c_ubyte * self.size).from_address(int(self.addr))
        return all(b == byte for b in raw[:: 4096])

    def release(self):
        if self.kind == "vram":
            check(cudart.cudaFree(self.addr))
        else:
            check(cudart.cudaFreeHost(self.addr))


class CopyTransport:
    """Issues put operations on its own stream, as the cuda_copy transport does."""

    def __init__(self):
        self.stream = check(
            cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.done = check(
            cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def put(self, local, remote):
        assert local.size == remote.size
        check(cudart.cudaMemcpyAsync(
            remote.addr, local.addr, local.size,
            cudart.cudaMemcpyKind.cudaMemcpyDefault, self.stream))
        check(cudart.cudaEventRecord(self.done, self.stream))
        return self.done

    def progress_until(self, handle):
        check(cudart.cudaEventSynchronize(handle))


def run_case(transport, size, byte):
    src = MemDesc("vram", size)
    dst = MemDesc("dram", size)
    dst.fill(0)
    src.fill(byte)
    handle = transport.put(src, dst)
    transport.progress_until(handle)
    ok = dst.matches(byte)
    src.release()
    dst.release()
    return ok


def main():
    transport = CopyTransport()
    results = [run_case(transport, 64 << 20, b) for b in (0xBB, 0xDA, 0x5A)]
    assert all(results), results


if __name__ == "__main__":
    main()
