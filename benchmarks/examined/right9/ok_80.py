import numpy as np
from cuda.bindings import runtime as rt


def ok(ret):
    if ret[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(ret[0])
    return ret[1] if len(ret) == 2 else ret[1:]


H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


class MirrorGraph:
    """A captured graph that clears one plane and mirrors another in parallel."""

    def __init__(self, n):
        self.n = n
        self.main = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.side = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.fork = ok(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.join = ok(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.a = ok(rt.cudaMalloc(n))
        self.b = ok(rt.cudaMalloc(n))
        self.c = ok(rt.cudaMalloc(2 * n))
        self.exec = self._capture()

    def _capture(self):
        ok(rt.cudaStreamBeginCapture(self.main, rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal))
        ok(rt.cudaEventRecord(self.fork, self.main))
        ok(rt.cudaStreamWaitEvent(self.side, self.fork, 0))
        ok(rt.cudaMemcpyAsync(self.b, self.a, self.n, D2D, self.side))
        ok(rt.cudaMemsetAsync(self.c, 7, self.n, self.main))
        ok(rt.cudaEventRecord(self.join, self.side))
        ok(rt.cudaStreamWaitEvent(self.main, self.join, 0))
        ok(rt.cudaMemcpyAsync(self.c + self.n, self.b, self.n, D2D, self.main))
        graph = ok(rt.cudaStreamEndCapture(self.main))
        instance = ok(rt.cudaGraphInstantiate(graph, 0))
        ok(rt.cudaGraphDestroy(graph))
        return instance

    def run(self, data):
        out = np.empty(2 * self.n, np.uint8)
        ok(rt.cudaMemcpyAsync(self.a, data.ctypes.data, self.n, H2D, self.main))
        ok(rt.cudaGraphLaunch(self.exec, self.main))
        ok(rt.cudaMemcpyAsync(out.ctypes.data, self.c, 2 * self.n, D2H, self.main))
        ok(rt.cudaStreamSynchronize(self.main))
        return out

    def close(self):
        ok(rt.cudaDeviceSynchronize())
        ok(rt.cudaGraphExecDestroy(self.exec))
        for p in (self.a, self.b, self.c):
            ok(rt.cudaFree(p))
        for e in (self.fork, self.join):
            ok(rt.cudaEventDestroy(e))
        for s in (self.main, self.side):
            ok(rt.cudaStreamDestroy(s))


def main():
    ok(rt.cudaSetDevice(0))
    g = MirrorGraph(1 << 20)
    rng = np.random.default_rng(0)
    for _ in range(10):
        data = rng.integers(0, 255, 1 << 20, dtype=np.uint8)
        out = g.run(data)
        print(bool((out[1 << 20 :] == data).all()), int(out[0]))
    g.close()


if __name__ == "__main__":
    main()
