"""Differentiable renderer front end that shares images with torch."""
import cupy as cp
import torch

_TRACE = cp.ElementwiseKernel(
    "raw float32 density, int32 w, int32 h, int32 steps",
    "float32 out",
    """
    int x = i % w, y = i / w;
    float t = 0.f, acc = 0.f;
    for (int s = 0; s < steps; ++s) {
        float d = density[((y + s) % h) * w + (x + s) % w];
        acc += (1.f - acc) * d * 0.01f;
        t += 0.5f;
    }
    out = acc;
    """,
    "trace",
)


class TensorXf:
    """Array type of the renderer."""

    def __init__(self, data):
        self._data = data

    @property
    def shape(self):
        return self._data.shape

    def __dlpack_device__(self):
        return self._data.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **kwargs):
        return self._data.__dlpack__(stream=-1)


class Scene:
    def __init__(self, height, width):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.density = cp.random.random((height, width), dtype=cp.float32)
        self.stream.synchronize()
        self.shape_hw = (height, width)

    def render(self, spp):
        h, w = self.shape_hw
        with self.stream:
            image = cp.empty((h, w), dtype=cp.float32)
            _TRACE(self.density, cp.int32(w), cp.int32(h), cp.int32(64 * spp), image)
        return TensorXf(image)


def loss_fn(image, reference):
    return (image - reference).abs().mean()


def main():
    scene = Scene(1024, 1024)
    reference = torch.zeros(1024, 1024, device="cuda")
    keep = []
    for it in range(20):
        rendered = scene.render(spp=4)
        keep.append(rendered)
        image = torch.from_dlpack(rendered)
        loss = loss_fn(image, reference)
        reference.lerp_(image, 0.1)
        print(it, loss.item())
    scene.stream.synchronize()


if __name__ == "__main__":
    main()
