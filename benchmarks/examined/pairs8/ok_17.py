import math

import numpy as np
import torch
from numba import cuda


@cuda.jit
def iou_mask_kernel(boxes, thresh, mask):
    i, j = cuda.grid(2)
    n = boxes.shape[0]
    if i < n and j < n and i < j:
        x1 = max(boxes[i, 0], boxes[j, 0])
        y1 = max(boxes[i, 1], boxes[j, 1])
        x2 = min(boxes[i, 2], boxes[j, 2])
        y2 = min(boxes[i, 3], boxes[j, 3])
        inter = max(x2 - x1, 0.0) * max(y2 - y1, 0.0)
        a = (boxes[i, 2] - boxes[i, 0]) * (boxes[i, 3] - boxes[i, 1])
        b = (boxes[j, 2] - boxes[j, 0]) * (boxes[j, 3] - boxes[j, 1])
        mask[i, j] = 1 if inter > thresh * (a + b - inter) else 0


class NmsPostprocessor:
    def __init__(self, threshold=0.5):
        self.threshold = threshold
        self.stream = cuda.stream()

    def __call__(self, boxes, scores, top=512):
        order = scores.topk(min(top, scores.shape[0])).indices
        ranked = boxes[order].contiguous()
        n = ranked.shape[0]
        mask = torch.zeros(n, n, dtype=torch.uint8, device="cuda")
        blocks = (math.ceil(n / 16), math.ceil(n / 16))
        iou_mask_kernel[blocks, (16, 16), self.stream](
            cuda.as_cuda_array(ranked), self.threshold, cuda.as_cuda_array(mask)
        )
        overlap = mask.cpu().numpy().astype(bool)
        keep, removed = [], np.zeros(n, dtype=bool)
        for i in range(n):
            if not removed[i]:
                keep.append(i)
                removed |= overlap[i]
        return ranked[torch.tensor(keep, device="cuda")]


def main():
    nms = NmsPostprocessor()
    for seed in range(5):
        torch.manual_seed(seed)
        xy = torch.rand(2000, 2, device="cuda") * 600
        boxes = torch.cat([xy, xy + torch.rand(2000, 2, device="cuda") * 80 + 1], dim=1)
        print(nms(boxes, torch.rand(2000, device="cuda")).shape)


if __name__ == "__main__":
    main()
