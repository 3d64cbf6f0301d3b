from contextlib import contextmanager

import cupy
import torch


def _torch_alloc(size, device_id):
    torch_ptr = torch.cuda.current_stream(device_id).cuda_stream
    cupy_ptr = cupy.cuda.get_current_stream().ptr
    if torch_ptr != cupy_ptr:
        raise RuntimeError("torch and cupy must share the current stream")
    return torch.cuda.caching_allocator_alloc(size, device_id, torch_ptr)


def _torch_free(pointer, device_id):
    torch.cuda.caching_allocator_delete(pointer)


def use_torch_pool():
    allocator = cupy.cuda.PythonFunctionAllocator(_torch_alloc, _torch_free)
    cupy.cuda.set_allocator(allocator.malloc)


@contextmanager
def shared_stream(stream):
    with torch.cuda.stream(stream), cupy.cuda.ExternalStream(stream.cuda_stream):
        yield stream


soft_threshold = cupy.ElementwiseKernel(
    "T x, T lam", "T y", "y = x > lam ? x - lam : (x < -lam ? x + lam : (T)0)", "soft_threshold"
)


class Ista:
    """Sparse coding: matrix products in torch, shrinkage in CuPy."""

    def __init__(self, dictionary, lam):
        self.dictionary = dictionary
        self.lam = lam

    def _shrink(self, codes, step):
        out = soft_threshold(cupy.asarray(codes), cupy.float32(self.lam * step))
        return torch.as_tensor(out, device=codes.device)

    def solve(self, signals, iters):
        gram = self.dictionary.t() @ self.dictionary
        step = 1.0 / torch.linalg.matrix_norm(gram, 2).item()
        target = self.dictionary.t() @ signals
        codes = torch.zeros_like(target)
        for _ in range(iters):
            codes = self._shrink(codes - step * (gram @ codes - target), step)
        return codes


def main():
    use_torch_pool()
    stream = torch.cuda.Stream()
    with shared_stream(stream):
        dictionary = torch.nn.functional.normalize(torch.randn(256, 1024, device="cuda"), dim=0)
        solver = Ista(dictionary, 0.1)
        for _ in range(5):
            codes = solver.solve(torch.randn(256, 512, device="cuda"), 100)
            print((codes != 0).float().mean().item())
        stream.synchronize()


if __name__ == "__main__":
    main()
