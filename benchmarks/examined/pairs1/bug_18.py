"""TensorRT reranker called once per retrieved passage batch."""
import numpy as np
import tensorrt as trt
from cuda import cudart


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return values[0] if values else None


class PinnedArray:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.ptr = check(cudart.cudaMallocHost(self.nbytes))
        import ctypes
        raw = (ctypes.c_byte * self.nbytes).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype=dtype).reshape(shape)


class Reranker:
    H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost

    def __init__(self, path, batch=64, length=256):
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        with open(path, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.ctx = self.engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.ids = PinnedArray((batch, length), np.int32)
        self.scores = PinnedArray((batch,), np.float32)
        self.d_ids = check(cudart.cudaMalloc(self.ids.nbytes))
        self.d_scores = check(cudart.cudaMalloc(self.scores.nbytes))
        self.ctx.set_tensor_address("ids", self.d_ids)
        self.ctx.set_tensor_address("scores", self.d_scores)

    def score(self, ids):
        np.copyto(self.ids.array, ids)
        check(cudart.cudaMemcpyAsync(self.d_ids, self.ids.ptr, self.ids.nbytes, self.H2D, self.stream))
        self.ctx.execute_async_v3(self.stream)
        check(cudart.cudaMemcpyAsync(self.scores.ptr, self.d_scores, self.scores.nbytes, self.D2H, self.stream))
        return self.scores.array.copy()


def main():
    ranker = Reranker("reranker.plan")
    rng = np.random.default_rng(0)
    best = []
    for _ in range(50):
        scores = ranker.score(rng.integers(0, 30000, (64, 256), dtype=np.int32))
        best.append(int(scores.argmax()))
    check(cudart.cudaStreamSynchronize(ranker.stream))
    return best


if __name__ == "__main__":
    print(main())
