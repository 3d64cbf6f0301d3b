"""Solver memory pool: cudaMallocAsync / cudaFreeAsync on the stream that is set for the thread."""
import threading

from cuda.bindings import runtime as cudart

_tls = threading.local()


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest


def new_stream():
    return check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))


def set_stream(stream):
    _tls.stream = stream


def get_stream():
    return _tls.stream


class MemoryPool:
    def allocate(self, nbytes):
        return check(cudart.cudaMallocAsync(nbytes, get_stream()))

    def free(self, ptr):
        check(cudart.cudaFreeAsync(ptr, get_stream()))


class Vector:
    def __init__(self, pool, nbytes):
        self.pool, self.nbytes = pool, nbytes
        self.ptr = pool.allocate(nbytes)

    def fill(self, byte):
        check(cudart.cudaMemsetAsync(self.ptr, byte, self.nbytes, get_stream()))

    def copy_from(self, other):
        check(cudart.cudaMemcpyAsync(
            self.ptr, other.ptr, self.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice, get_stream()))

    def destroy(self):
        self.pool.free(self.ptr)
        self.ptr = None


class Smoother:
    def __init__(self, pool, side):
        self.pool, self.side = pool, side
        self.fork = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.join = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def apply(self, x, backup, byte):
        main = get_stream()
        tmp = Vector(self.pool, x.nbytes)
        tmp.fill(byte)
        check(cudart.cudaEventRecord(self.fork, main))
        check(cudart.cudaStreamWaitEvent(self.side, self.fork, 0))
        set_stream(self.side)
        backup.copy_from(tmp)
        set_stream(main)
        check(cudart.cudaEventRecord(self.join, self.side))
        x.copy_from(tmp)
        check(cudart.cudaStreamWaitEvent(main, self.join, 0))
        tmp.destroy()


def solve(rounds):
    set_stream(new_stream())
    pool = MemoryPool()
    smoother = Smoother(pool, new_stream())
    x = Vector(pool, 64 << 20)
    backup = Vector(pool, 64 << 20)
    for r in range(rounds):
        smoother.apply(x, backup, r)
    x.destroy()
    backup.destroy()
    check(cudart.cudaStreamSynchronize(get_stream()))


def main():
    threads = [threading.Thread(target=solve, args=(8,)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


if __name__ == "__main__":
    main()
