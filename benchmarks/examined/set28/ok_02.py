from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Detections:
    xyxy: np.ndarray
    confidence: np.ndarray
    class_id: np.ndarray
    mask: np.ndarray | None = None


class HostTransfer:
    """Collects device tensors and brings them to the host together."""

    def __init__(self):
        self._items = []

    def add(self, tensor):
        if tensor is None:
            return None
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        host.copy_(tensor, non_blocking=True)
        self._items.append(host)
        return host

    def finish(self):
        if self._items:
            torch.cuda.current_stream().synchronize()
        self._items.clear()


class Predictor:
    def __init__(self, model, threshold=0.5, device="cuda"):
        self.model = model.eval().to(device)
        self.threshold = threshold
        self.device = device

    def _preprocess(self, images):
        batch = []
        for img in images:
            t = torch.from_numpy(img).permute(2, 0, 1).contiguous()
            batch.append(t)
        stacked = torch.stack(batch).pin_memory()
        return stacked.to(self.device, non_blocking=True).float().div_(255.0)

    def _postprocess(self, outputs):
        results = []
        transfer = HostTransfer()
        for boxes, scores, labels, masks in zip(
            outputs["boxes"], outputs["scores"], outputs["labels"], outputs.get("masks") or [None] * len(outputs["boxes"])
        ):
            keep = scores > self.threshold
            entry = dict(
                xyxy=transfer.add(boxes[keep]),
                confidence=transfer.add(scores[keep]),
                class_id=transfer.add(labels[keep]),
                mask=transfer.add(masks[keep] > 0) if masks is not None else None,
            )
            results.append(entry)
        transfer.finish()
        return [
            Detections(
                xyxy=r["xyxy"].numpy(),
                confidence=r["confidence"].numpy(),
                class_id=r["class_id"].numpy().astype(int),
                mask=r["mask"].numpy() if r["mask"] is not None else None,
            )
            for r in results
        ]

    @torch.inference_mode()
    def predict(self, images):
        return self._postprocess(self.model(self._preprocess(images)))


def run(predictor, frames, batch=8):
    counts = []
    for i in range(0, len(frames), batch):
        for det in predictor.predict(frames[i : i + batch]):
            counts.append(int((det.confidence > 0.7).sum()))
    return counts
