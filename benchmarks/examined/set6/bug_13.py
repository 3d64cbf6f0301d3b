import cupy as cp
import torch

_SHADE = cp.RawKernel(
    r"""
extern "C" __global__
void shade(const float* depth, float* rgb, const float exposure, const int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        float v = expf(-depth[i] * exposure);
        rgb[3 * i] = v;
        rgb[3 * i + 1] = v * v;
        rgb[3 * i + 2] = v * v * v;
    }
}
""",
    "shade",
)


class DeviceImage:
    """Film contents, importable by any framework that speaks DLPack."""

    def __init__(self, array: cp.ndarray, ready: cp.cuda.Event):
        self._array = array
        self._ready = ready

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **kwargs):
        return self._array.__dlpack__(stream=-1)

    def migrate_to_host(self):
        self._ready.synchronize()
        return self._array.get()


class Integrator:
    def __init__(self, width: int, height: int):
        self.shape = (height, width)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.depth = cp.ones(self.shape, dtype=cp.float32)

    def render(self, exposure: float, spp: int = 16) -> DeviceImage:
        n = self.shape[0] * self.shape[1]
        film = cp.empty((*self.shape, 3), dtype=cp.float32)
        cp.cuda.get_current_stream().synchronize()
        with self.stream:
            for _ in range(spp):
                self.depth += cp.random.uniform(-0.01, 0.01, self.shape, dtype=cp.float32)
                _SHADE(
                    ((n + 255) // 256,), (256,), (self.depth, film, cp.float32(exposure), cp.int32(n))
                )
            ready = self.stream.record()
        return DeviceImage(film, ready)


def fit_exposure(integrator: Integrator, reference: torch.Tensor, candidates):
    losses, images = [], []
    for exposure in candidates:
        image = integrator.render(exposure)
        images.append(image)
        pixels = torch.from_dlpack(image)
        losses.append(torch.nn.functional.mse_loss(pixels, reference))
    best = int(torch.stack(losses).argmin())
    return candidates[best], images[best].migrate_to_host()
