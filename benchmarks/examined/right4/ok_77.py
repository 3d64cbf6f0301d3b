from contextlib import ExitStack

import cupy as cp
import torch


class SharedStream:
    def __init__(self):
        self.torch = torch.cuda.Stream()
        self.cupy = cp.cuda.ExternalStream(self.torch.cuda_stream)
        self._stack = None

    def __enter__(self):
        self._caller = torch.cuda.current_stream()
        self.torch.wait_stream(self._caller)
        self._stack = ExitStack()
        self._stack.enter_context(torch.cuda.stream(self.torch))
        self._stack.enter_context(self.cupy)
        return self

    def __exit__(self, *exc):
        self._stack.close()
        self._caller.wait_stream(self.torch)

    def export(self, tensor):
        tensor.record_stream(self._caller)
        return tensor


_threshold = cp.ElementwiseKernel(
    "float32 x, float32 t", "float32 y", "y = fabsf(x) < t ? 0.0f : x - copysignf(t, x)", "soft_threshold")


class Denoiser:
    def __init__(self, levels=3):
        self.levels = levels
        self.shared = SharedStream()

    def _shrink(self, tensor, t):
        out = torch.empty_like(tensor)
        _threshold(cp.asarray(tensor), cp.float32(t), cp.asarray(out))
        return out

    def __call__(self, image):
        with self.shared as scope:
            low, details = image, []
            for _ in range(self.levels):
                half = torch.nn.functional.avg_pool2d(low, 2)
                up = torch.nn.functional.interpolate(half, scale_factor=2.0)
                details.append(self._shrink((low - up).contiguous(), 0.05))
                low = half
            for d in reversed(details):
                low = torch.nn.functional.interpolate(low, scale_factor=2.0) + d
            return scope.export(low)


def main():
    denoise = Denoiser()
    score = []
    for _ in range(10):
        noisy = torch.randn(1, 3, 512, 512, device="cuda")
        clean = denoise(noisy)
        score.append((clean - noisy).abs().mean())
    return torch.stack(score).tolist()
