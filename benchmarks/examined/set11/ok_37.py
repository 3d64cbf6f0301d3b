"""Custom CuPy post-processing of JAX results, exchanged with the DLPack protocol."""
from functools import partial
from typing import List

import cupy as cp
import jax
import jax.numpy as jnp
import numpy as np

_nms = cp.RawKernel(r"""
extern "C" __global__ void suppress(const float4* boxes, const float* scores, bool* keep, int n, float threshold) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    bool ok = true;
    float4 a = boxes[i];
    for (int j = 0; j < n && ok; ++j) {
        if (scores[j] <= scores[i]) continue;
        float4 b = boxes[j];
        float w = fminf(a.z, b.z) - fmaxf(a.x, b.x), h = fminf(a.w, b.w) - fmaxf(a.y, b.y);
        float inter = fmaxf(w, 0.f) * fmaxf(h, 0.f);
        float uni = (a.z - a.x) * (a.w - a.y) + (b.z - b.x) * (b.w - b.y) - inter;
        ok = inter <= threshold * uni;
    }
    keep[i] = ok;
}""", "suppress")


@partial(jax.jit, static_argnames="stride")
def decode(raw: jax.Array, stride: int):
    center = (jax.nn.sigmoid(raw[..., :2]) * 2 - 0.5) * stride
    half = 0.5 * (jax.nn.sigmoid(raw[..., 2:4]) * 2) ** 2 * stride
    boxes = jnp.concatenate([center - half, center + half], -1).reshape(-1, 4)
    return boxes, jax.nn.sigmoid(raw[..., 4]).reshape(-1)


class NmsPostprocess:
    def __init__(self, threshold: float = 0.5, min_score: float = 0.25):
        self.threshold = threshold
        self.min_score = min_score
        self.stream = cp.cuda.Stream(non_blocking=True)

    def __call__(self, boxes: jax.Array, scores: jax.Array) -> np.ndarray:
        with self.stream:
            # from_dlpack hands its stream to JAX, which orders it after the computation of the arrays
            boxes_cp = cp.from_dlpack(boxes)
            scores_cp = cp.from_dlpack(scores)
            keep = cp.zeros(scores_cp.shape, dtype=cp.bool_)
            n = scores_cp.size
            _nms(((n + 127) // 128,), (128,), (boxes_cp, scores_cp, keep, np.int32(n), np.float32(self.threshold)))
            keep &= scores_cp > self.min_score
            kept = boxes_cp[keep]
            result = cp.asnumpy(kept)
        self.stream.synchronize()
        return result


def detect(apply_fn, params, images: List[np.ndarray], stride: int) -> List[np.ndarray]:
    post = NmsPostprocess()
    results = []
    for image in images:
        raw = apply_fn(params, jnp.asarray(image)[None])[0]
        boxes, scores = decode(raw, stride)
        results.append(post(boxes, scores))
    return results
