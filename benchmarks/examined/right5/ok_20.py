import math

import torch
from numba import cuda


@cuda.jit
def nms_mask(boxes, thresh, mask):
    i, j = cuda.grid(2)
    n = boxes.shape[0]
    if i >= n or j >= n or j <= i:
        return
    x1 = max(boxes[i, 0], boxes[j, 0])
    y1 = max(boxes[i, 1], boxes[j, 1])
    x2 = min(boxes[i, 2], boxes[j, 2])
    y2 = min(boxes[i, 3], boxes[j, 3])
    inter = max(x2 - x1, 0.0) * max(y2 - y1, 0.0)
    a = (boxes[i, 2] - boxes[i, 0]) * (boxes[i, 3] - boxes[i, 1])
    b = (boxes[j, 2] - boxes[j, 0]) * (boxes[j, 3] - boxes[j, 1])
    if inter / (a + b - inter + 1e-6) > thresh:
        mask[i, j] = 1


def numba_stream():
    return cuda.external_stream(torch.cuda.current_stream().cuda_stream)


def suppress(boxes: torch.Tensor, scores: torch.Tensor, thresh: float) -> torch.Tensor:
    order = scores.argsort(descending=True)
    sorted_boxes = boxes[order].contiguous()
    n = sorted_boxes.shape[0]
    mask = torch.zeros(n, n, dtype=torch.uint8, device=boxes.device)
    threads = (16, 16)
    blocks = (math.ceil(n / 16), math.ceil(n / 16))
    nms_mask[blocks, threads, numba_stream()](
        cuda.as_cuda_array(sorted_boxes, sync=False), thresh, cuda.as_cuda_array(mask, sync=False))
    removed = mask.any(dim=0)
    return order[~removed]


class Detector:
    def __init__(self, streams: int = 2):
        self.streams = [torch.cuda.Stream() for _ in range(streams)]

    def __call__(self, images):
        main = torch.cuda.current_stream()
        kept = []
        for i, (boxes, scores) in enumerate(images):
            s = self.streams[i % len(self.streams)]
            s.wait_stream(main)
            with torch.cuda.stream(s):
                boxes.record_stream(s)
                scores.record_stream(s)
                kept.append(suppress(boxes, scores, 0.5).tolist())
        return kept


def main():
    det = Detector()
    images = []
    for _ in range(6):
        xy = torch.rand(300, 2, device="cuda") * 512
        wh = torch.rand(300, 2, device="cuda") * 64 + 4
        images.append((torch.cat([xy, xy + wh], 1), torch.rand(300, device="cuda")))
    for ids in det(images):
        print(len(ids), ids[:5])


if __name__ == "__main__":
    main()
