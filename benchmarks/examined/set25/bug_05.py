import torch
import torch.nn as nn
from torchvision.ops import batched_nms


class Engine(nn.Module):
    """Stand-in for a deserialized engine with two output heads."""

    def __init__(self, anchors=8400, classes=80):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 16, 16)
        self.boxes = nn.Linear(32, 4)
        self.scores = nn.Linear(32, classes)

    def forward(self, x):
        feats = self.stem(x).flatten(2).transpose(1, 2)
        return self.boxes(feats), self.scores(feats).sigmoid()


class YOLONasForObjectDetectionTRT:
    def __init__(self, device, max_batch=4):
        self.device = device
        self.engine = Engine().to(device).eval()
        self.max_batch = max_batch
        torch.cuda.synchronize(device)
        self._pre_process_stream = torch.cuda.Stream(device)
        self._inference_stream = torch.cuda.Stream(device)
        self._post_process_stream = torch.cuda.Stream(device)

    @torch.inference_mode()
    def pre_process(self, images):
        with torch.cuda.stream(self._pre_process_stream):
            batch = torch.stack([torch.from_numpy(i) for i in images]).pin_memory()
            batch = batch.to(self.device, non_blocking=True).permute(0, 3, 1, 2).float().div_(255.0)
        self._pre_process_stream.synchronize()
        return batch.contiguous()

    @torch.inference_mode()
    def forward(self, batch):
        results = []
        self._inference_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._inference_stream):
            for start in range(0, batch.shape[0], self.max_batch):
                boxes, scores = self.engine(batch[start : start + self.max_batch])
                results.append((boxes, scores))
        self._inference_stream.synchronize()
        boxes = torch.cat([r[0] for r in results], dim=0)
        scores = torch.cat([r[1] for r in results], dim=0)
        return boxes, scores

    @torch.inference_mode()
    def post_process(self, model_results, conf=0.4, iou=0.5):
        boxes, scores = model_results
        detections = []
        with torch.cuda.stream(self._post_process_stream):
            for b, s in zip(boxes, scores):
                best, cls = s.max(dim=-1)
                keep = best > conf
                b, best, cls = b[keep], best[keep], cls[keep]
                idx = batched_nms(b, best, cls, iou)
                detections.append((b[idx], best[idx], cls[idx]))
        self._post_process_stream.synchronize()
        return detections

    def infer(self, images):
        return self.post_process(self.forward(self.pre_process(images)))


def main():
    import numpy as np

    model = YOLONasForObjectDetectionTRT(torch.device("cuda", 0))
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(100):
        images = [rng.integers(0, 255, (640, 640, 3), dtype=np.uint8) for _ in range(10)]
        counts.append([len(d[1]) for d in model.infer(images)])
    print(counts[-1])


if __name__ == "__main__":
    main()
