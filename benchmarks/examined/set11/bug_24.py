"""Offloads tensor contractions of the GW step to the GPU; the accumulation stays on the host."""
from typing import List, Sequence

import cupy as cp
import cupyx
import numpy as np


class CudaPipeline:
    def __init__(self, device_id: int):
        self.device = cp.cuda.Device(device_id)
        with self.device:
            self.stream = cp.cuda.Stream(non_blocking=True)

    def gemm(self, a: "CudaMatrix", b: "CudaMatrix", out: "CudaMatrix") -> None:
        with self.device, self.stream:
            cp.matmul(a.data, b.data, out=out.data)


class CudaMatrix:
    def __init__(self, pipeline: CudaPipeline, shape, dtype=np.float64):
        self.pipeline = pipeline
        self.shape = tuple(shape)
        with pipeline.device, pipeline.stream:
            self.data = cp.empty(self.shape, dtype=dtype)
        self._staging = cupyx.empty_pinned(self.shape, dtype=dtype)

    def copy_to_gpu(self, host: np.ndarray) -> None:
        self.pipeline.stream.synchronize()
        self._staging[...] = host
        self.data.data.copy_from_host_async(self._staging.ctypes.data, self._staging.nbytes, self.pipeline.stream)

    def to_host(self) -> np.ndarray:
        self.data.data.copy_to_host_async(self._staging.ctypes.data, self._staging.nbytes, self.pipeline.stream)
        return self._staging


class OpenMPCuda:
    """Keeps the operators of one worker on its device between calls."""

    def __init__(self, device_ids: Sequence[int]):
        self.pipelines = [CudaPipeline(d) for d in device_ids]
        self.left: List[CudaMatrix] = []
        self.right: List[CudaMatrix] = []
        self.result: List[CudaMatrix] = []

    def set_operators(self, left: np.ndarray, right_shape) -> None:
        self.left, self.right, self.result = [], [], []
        for pipeline in self.pipelines:
            operator = CudaMatrix(pipeline, left.shape)
            operator.copy_to_gpu(left)
            self.left.append(operator)
            self.right.append(CudaMatrix(pipeline, right_shape))
            self.result.append(CudaMatrix(pipeline, (left.shape[0], right_shape[1])))

    def multiply(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros(self.result[0].shape)
        workers = len(self.pipelines)
        for start in range(0, len(tensors), workers):
            batch = tensors[start : start + workers]
            for w, tensor in enumerate(batch):
                self.right[w].copy_to_gpu(tensor)
                self.pipelines[w].gemm(self.left[w], self.right[w], self.result[w])
            for w in range(len(batch)):
                total += self.result[w].to_host()
        return total
