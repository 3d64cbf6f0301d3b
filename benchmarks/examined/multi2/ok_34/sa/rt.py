from cuda import cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def call(fn, *args):
    err, *rest = fn(*args)
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"{fn.__name__}: {err}")
    return rest[0] if rest else None


class Queue:
    def __init__(self):
        self.stream = call(cudart.cudaStreamCreateWithFlags, cudart.cudaStreamNonBlocking)

    def mark(self):
        e = call(cudart.cudaEventCreateWithFlags, cudart.cudaEventDisableTiming)
        call(cudart.cudaEventRecord, e, self.stream)
        return e

    def heed(self, mark):
        call(cudart.cudaStreamWaitEvent, self.stream, mark, 0)
        call(cudart.cudaEventDestroy, mark)

    def join(self):
        call(cudart.cudaStreamSynchronize, self.stream)
