"""Explicit CUDA graph with two branches over one graph-owned scratch buffer."""
import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else tuple(rest)


D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


class SplitGraph:
    """Expands a tile into scratch, then copies its halves out on two branches."""

    def __init__(self, nbytes: int, device: int = 0):
        check(cudart.cudaSetDevice(device))
        self.nbytes, self.device = nbytes, device
        self.half = nbytes // 2
        self.source = check(cudart.cudaMalloc(nbytes))
        self.left = check(cudart.cudaMalloc(self.half))
        self.right = check(cudart.cudaMalloc(self.half))
        self.graph = check(cudart.cudaGraphCreate(0))
        self._build()
        self.exec = check(cudart.cudaGraphInstantiate(self.graph, 0))

    def _scratch(self, deps, nbytes):
        params = cudart.cudaMemAllocNodeParams()
        params.poolProps.allocType = cudart.cudaMemAllocationType.cudaMemAllocationTypePinned
        params.poolProps.location.type = cudart.cudaMemLocationType.cudaMemLocationTypeDevice
        params.poolProps.location.id = self.device
        params.bytesize = nbytes
        node = check(cudart.cudaGraphAddMemAllocNode(self.graph, deps, len(deps), params))
        return node, int(check(cudart.cudaGraphMemAllocNodeGetParams(node)).dptr)

    def _copy(self, deps, dst, src, nbytes):
        return check(
            cudart.cudaGraphAddMemcpyNode1D(self.graph, deps, len(deps), dst, src, nbytes, D2D)
        )

    def _join(self, deps):
        return check(cudart.cudaGraphAddEmptyNode(self.graph, deps, len(deps)))

    def _build(self) -> None:
        alloc, scratch = self._scratch([], self.nbytes)
        fill = self._copy([alloc], scratch, self.source, self.nbytes)
        left = self._copy([fill], self.left, scratch, self.half)
        right = self._copy([fill], self.right, scratch + self.half, self.half)
        joined = self._join([left, right])
        freed = check(cudart.cudaGraphAddMemFreeNode(self.graph, [joined], 1, scratch))
        again, temp = self._scratch([freed], self.half)
        hold = self._copy([again], temp, self.left, self.half)
        swap = self._copy([hold], self.left, self.right, self.half)
        back = self._copy([swap], self.right, temp, self.half)
        check(cudart.cudaGraphAddMemFreeNode(self.graph, [back], 1, temp))

    def launch(self, stream) -> None:
        check(cudart.cudaGraphLaunch(self.exec, stream))

    def close(self) -> None:
        check(cudart.cudaGraphExecDestroy(self.exec))
        check(cudart.cudaGraphDestroy(self.graph))
        for ptr in (self.source, self.left, self.right):
            check(cudart.cudaFree(ptr))


def main(tiles: int = 64, nbytes: int = 32 << 20) -> None:
    stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    graph = SplitGraph(nbytes)
    tile = np.zeros(nbytes, dtype=np.uint8)
    out = np.empty(nbytes // 2, dtype=np.uint8)
    for k in range(tiles):
        tile[: nbytes // 2] = k % 7
        tile[nbytes // 2 :] = k % 11
        check(cudart.cudaMemcpyAsync(graph.source, tile.ctypes.data, nbytes, H2D, stream))
        graph.launch(stream)
        check(cudart.cudaMemcpyAsync(out.ctypes.data, graph.left, out.nbytes, D2H, stream))
        check(cudart.cudaStreamSynchronize(stream))
        assert int(out[0]) == k % 11
    graph.close()
    check(cudart.cudaStreamDestroy(stream))


if __name__ == "__main__":
    main()
