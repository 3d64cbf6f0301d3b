"""Column operators that run each on its own stream, joined with events."""
import numpy as np
from cuda.bindings import driver
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


class Column:
    def __init__(self, n, stream):
        self.n = n
        self.stream = stream
        self.ptr = check(cudart.cudaMallocAsync(4 * n, stream))

    def free(self):
        check(cudart.cudaFreeAsync(self.ptr, self.stream))
        self.ptr = None


def join_cuda_streams(downstreams, upstreams):
    """Make every downstream wait for the work queued so far on every upstream."""
    events = []
    for up in upstreams:
        event = check(
            cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)
        )
        check(cudart.cudaEventRecord(event, up))
        events.append(event)
    for down in downstreams:
        for event in events:
            check(cudart.cudaStreamWaitEvent(down, event, 0))
    for event in events:
        check(cudart.cudaEventDestroy(event))


def launch(kernel, n, stream, *pointers):
    values = tuple(int(p) for p in pointers) + (n,)
    args = [np.array([v], dtype=np.uint64) for v in values[:-1]]
    args.append(np.array([n], dtype=np.int32))
    packed = np.array([a.ctypes.data for a in args], dtype=np.uint64)
    check(
        driver.cuLaunchKernel(
            kernel, (n + 255) // 256, 1, 1, 256, 1, 1, 0, int(stream),
            packed.ctypes.data, 0,
        )
    )


class Evaluator:
    def __init__(self, kernels, nstreams=3):
        self.kernels = kernels
        flags = cudart.cudaStreamNonBlocking
        self.streams = [
            check(cudart.cudaStreamCreateWithFlags(flags)) for _ in range(nstreams)
        ]

    def read_column(self, host, stream):
        col = Column(host.size, stream)
        check(
            cudart.cudaMemcpyAsync(
                col.ptr, host.ctypes.data, host.nbytes,
                cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream,
            )
        )
        return col

    def add(self, left_host, right_host):
        left = self.read_column(left_host, self.streams[0])
        right = self.read_column(right_host, self.streams[1])
        out = Column(left.n, self.streams[2])

        join_cuda_streams([out.stream], [left.stream, right.stream])
        launch(self.kernels["add"], out.n, out.stream, out.ptr, left.ptr, right.ptr)
        join_cuda_streams([left.stream, right.stream], [out.stream])
        left.free()
        right.free()

        result = np.empty(out.n, dtype=np.float32)
        check(
            cudart.cudaMemcpyAsync(
                result.ctypes.data, out.ptr, result.nbytes,
                cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, out.stream,
            )
        )
        check(cudart.cudaStreamSynchronize(out.stream))
        out.free()
        return result
