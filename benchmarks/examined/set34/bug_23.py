"""Hand-built CUDA graph for a frame filter with graph-owned scratch buffers."""
import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else tuple(rest)


D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice


class FrameGraph:
    """frame -> luma, mask and glow planes; the latter two pass through scratch."""

    def __init__(self, nbytes: int, device: int = 0):
        check(cudart.cudaSetDevice(device))
        self.nbytes = nbytes
        self.device = device
        self.frame = check(cudart.cudaMalloc(nbytes))
        self.luma = check(cudart.cudaMalloc(nbytes))
        self.mask = check(cudart.cudaMalloc(nbytes))
        self.glow = check(cudart.cudaMalloc(nbytes))
        self.graph = check(cudart.cudaGraphCreate(0))
        self._build()
        self.exec = check(cudart.cudaGraphInstantiate(self.graph, 0))

    def _scratch(self, deps):
        params = cudart.cudaMemAllocNodeParams()
        params.poolProps.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
        params.poolProps.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
        params.poolProps.location.id = self.device
        params.bytesize = self.nbytes
        node = check(cudart.cudaGraphAddMemAllocNode(self.graph, deps, len(deps), params))
        return node, int(check(cudart.cudaGraphMemAllocNodeGetParams(node)).dptr)

    def _fill(self, deps, dst, value):
        params = cudart.cudaMemsetParams()
        params.dst = dst
        params.value = value
        params.elementSize = 1
        params.width = self.nbytes
        params.height = 1
        return check(cudart.cudaGraphAddMemsetNode(self.graph, deps, len(deps), params))

    def _copy(self, deps, dst, src):
        return check(
            cudart.cudaGraphAddMemcpyNode1D(
                self.graph, deps, len(deps), dst, src, self.nbytes, D2D
            )
        )

    def _build(self) -> None:
        alloc, scratch = self._scratch([])
        luma = self._copy([alloc], self.luma, self.frame)
        tint = self._fill([alloc], scratch, 0x7F)
        mask = self._copy([tint], self.mask, scratch)
        freed = check(cudart.cudaGraphAddMemFreeNode(self.graph, [luma], 1, scratch))
        again, second = self._scratch([freed])
        dim = self._fill([again], second, 0x11)
        glow = self._copy([dim], self.glow, second)
        done = check(cudart.cudaGraphAddMemFreeNode(self.graph, [glow], 1, second))
        self.tail = (luma, mask, done)

    def launch(self, stream) -> None:
        check(cudart.cudaGraphLaunch(self.exec, stream))

    def close(self) -> None:
        check(cudart.cudaGraphExecDestroy(self.exec))
        check(cudart.cudaGraphDestroy(self.graph))
        for ptr in (self.frame, self.luma, self.mask, self.glow):
            check(cudart.cudaFree(ptr))


def main(frames: int = 64, nbytes: int = 32 << 20) -> None:
    stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    fg = FrameGraph(nbytes)
    src = np.full(nbytes, 3, dtype=np.uint8)
    out = np.empty(nbytes, dtype=np.uint8)
    h2d = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
    for _ in range(frames):
        check(cudart.cudaMemcpyAsync(fg.frame, src.ctypes.data, nbytes, h2d, stream))
        fg.launch(stream)
        check(cudart.cudaMemcpyAsync(out.ctypes.data, fg.mask, nbytes, d2h, stream))
        check(cudart.cudaStreamSynchronize(stream))
        assert int(out[0]) == 0x7F
    fg.close()
    check(cudart.cudaStreamDestroy(stream))


if __name__ == "__main__":
    main()
