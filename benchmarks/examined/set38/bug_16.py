"""A tiny queue/view layer on top of the CUDA runtime bindings."""
import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1])
    return rest[0] if rest else None


class View:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(rt.cudaMalloc(nbytes))

    def free(self):
        check(rt.cudaFree(self.ptr))


class Queue:
    def __init__(self, blocking_host):
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.blocking_host = blocking_host

    def enqueue(self, task):
        task.run(self.stream)
        if self.blocking_host:
            self.wait()

    def wait(self):
        check(rt.cudaStreamSynchronize(self.stream))

    def destroy(self):
        check(rt.cudaStreamDestroy(self.stream))


class SetTask:
    def __init__(self, view, byte, extent=None):
        self.view, self.byte = view, byte
        self.extent = view.nbytes if extent is None else extent

    def run(self, stream):
        check(rt.cudaMemsetAsync(self.view.ptr, self.byte, self.extent, stream))


class CopyTask:
    def __init__(self, dst, src, nbytes):
        self.dst, self.src, self.nbytes = dst, src, nbytes

    def run(self, stream):
        kind = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        check(rt.cudaMemcpy(self.dst.ptr, self.src.ptr, self.nbytes, kind))


class DownloadTask:
    def __init__(self, host, src):
        self.host, self.src = host, src

    def run(self, stream):
        kind = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(rt.cudaMemcpyAsync(self.host.ctypes.data, self.src.ptr, self.host.nbytes, kind, stream))
        check(rt.cudaStreamSynchronize(stream))


class Relaxation:
    def __init__(self, nbytes, blocking_host=False):
        self.queue = Queue(blocking_host)
        self.front, self.back, self.total = View(nbytes), View(nbytes), View(nbytes)
        self.nbytes = nbytes
        self.host = np.empty(nbytes, dtype=np.uint8)

    def sweep(self, value):
        self.queue.enqueue(SetTask(self.front, value))
        self.queue.enqueue(SetTask(self.front, value + 1, self.nbytes // 2))
        self.queue.enqueue(CopyTask(self.back, self.front, self.nbytes))

    def solve(self, sweeps):
        means = []
        for s in range(sweeps):
            self.sweep(s)
            if s % 4 == 3:
                check(rt.cudaDeviceSynchronize())
                self.queue.enqueue(DownloadTask(self.host, self.back))
                means.append(float(self.host[:: 4096].mean()))
        return means

    def close(self):
        self.queue.wait()
        for v in (self.front, self.back, self.total):
            v.free()
        self.queue.destroy()


def main():
    check(rt.cudaSetDevice(0))
    sim = Relaxation(256 << 20)
    print(sim.solve(32))
    sim.close()


if __name__ == "__main__":
    main()
