"""Decode NV12 frames, convert on the GPU and hand them to torch."""
import cupy as cp
import numpy as np
import torch

NV12_TO_RGB = cp.RawKernel(
    r"""
extern "C" __global__
void nv12_to_rgb(const unsigned char* src, unsigned char* dst, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float Y = src[y * w + x];
    const unsigned char* uv = src + w * h + (y / 2) * w + (x & ~1);
    float U = uv[0] - 128.0f, V = uv[1] - 128.0f;
    int o = y * w + x;
    dst[o] = (unsigned char) fminf(fmaxf(Y + 1.402f * V, 0.f), 255.f);
    dst[w * h + o] = (unsigned char) fminf(fmaxf(Y - 0.344f * U - 0.714f * V, 0.f), 255.f);
    dst[2 * w * h + o] = (unsigned char) fminf(fmaxf(Y + 1.772f * U, 0.f), 255.f);
}
""",
    "nv12_to_rgb",
)


class NvColorConverter:
    """NV12 surface to planar RGB on the codec stream."""

    def __init__(self, width, height):
        self.width = width
        self.height = height
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.surface = cp.empty((3, height, width), dtype=cp.uint8)

    def run(self, nv12):
        block = (32, 8)
        grid = ((self.width + 31) // 32, (self.height + 7) // 8)
        with self.stream:
            src = cp.asarray(nv12)
            NV12_TO_RGB(
                grid,
                block,
                (src, self.surface, np.int32(self.width), np.int32(self.height)),
            )
        return self.surface


def surface_to_tensor(surface):
    """Copy a decoded surface into memory owned by torch."""
    return torch.as_tensor(surface, device="cuda").clone()


def process_video(decode_frame, width, height, num_frames):
    converter = NvColorConverter(width, height)
    images = []
    for _ in range(num_frames):
        nv12 = decode_frame()
        surface = converter.run(nv12)
        tensor = surface_to_tensor(surface)
        image = tensor.permute(1, 2, 0).flip(-1).contiguous()
        images.append(image.cpu().numpy())
    return images
