import numpy as np
import torch

from .launch import kernel, pointers, run

SOURCE = r"""
extern "C" __global__
void correlate(const float *a, const float *b, float *out, int c, int h, int w, int r) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int d = 2 * r + 1, total = d * d * h * w;
    if (i >= total) return;
    int x = i % w, y = (i / w) % h, k = i / (w * h);
    int yy = y + k / d - r, xx = x + k % d - r;
    float s = 0.f;
    if (yy >= 0 && yy < h && xx >= 0 && xx < w)
        for (int j = 0; j < c; ++j)
            s += a[(j * h + y) * w + x] * b[(j * h + yy) * w + xx];
    out[i] = s / c;
}
"""


def correlate(a, b, radius=4):
    """Cost volume of two feature maps of shape (C, H, W)."""
    a, b = a.contiguous(), b.contiguous()
    c, h, w = a.shape
    d = 2 * radius + 1
    out = torch.empty((d * d, h, w), dtype=a.dtype, device=a.device)
    total = out.numel()
    run(
        kernel("correlate", SOURCE),
        ((total + 255) // 256, 1, 1),
        (256, 1, 1),
        (*pointers(a, b, out), np.int32(c), np.int32(h), np.int32(w), np.int32(radius)),
    )
    return out
