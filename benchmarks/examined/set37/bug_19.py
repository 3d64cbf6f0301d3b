"""Object detection service: torch preprocessing on the GPU, an ONNX Runtime session on bound device buffers."""
from dataclasses import dataclass
from typing import List, Tuple

import numpy as np
import onnxruntime as ort
import torch
import torch.nn.functional as F


@dataclass
class Detection:
    box: Tuple[float, float, float, float]
    score: float
    label: int


class Preprocessor:
    def __init__(self, size: int, device: torch.device):
        self.size = size
        self.device = device
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1)

    def __call__(self, frames: List[np.ndarray]) -> torch.Tensor:
        planes = []
        for frame in frames:
            image = torch.from_numpy(frame).to(self.device).permute(2, 0, 1)[None].float().div_(255.0)
            planes.append(
                F.interpolate(image, (self.size, self.size), mode="bilinear", antialias=True, align_corners=False)
            )
        batch = torch.cat(planes)
        return batch.sub_(self.mean).div_(self.std).contiguous()


class Detector:
    def __init__(self, path: str, size: int = 640, queries: int = 300, classes: int = 80, device_id: int = 0):
        self.device_id = device_id
        self.device = torch.device("cuda", device_id)
        self.queries, self.classes = queries, classes
        self.session = ort.InferenceSession(path, providers=[("CUDAExecutionProvider", {"device_id": device_id})])
        self.input_name = self.session.get_inputs()[0].name
        self.output_names = [o.name for o in self.session.get_outputs()]
        self.preprocess = Preprocessor(size, self.device)

    def _bind(self, batch: torch.Tensor):
        binding = self.session.io_binding()
        binding.bind_input(
            name=self.input_name,
            device_type="cuda",
            device_id=self.device_id,
            element_type=np.float32,
            shape=tuple(batch.shape),
            buffer_ptr=batch.data_ptr(),
        )
        for name in self.output_names:
            binding.bind_output(name, "cpu")
        return binding

    def predict(self, frames: List[np.ndarray], threshold: float = 0.4) -> List[List[Detection]]:
        batch = self.preprocess(frames)
        binding = self._bind(batch)
        self.session.run_with_iobinding(binding)
        boxes, logits = binding.copy_outputs_to_cpu()
        results = []
        for frame, frame_boxes, frame_logits in zip(frames, boxes, logits):
            height, width = frame.shape[:2]
            scores = 1.0 / (1.0 + np.exp(-frame_logits))
            labels = scores.argmax(axis=-1)
            best = scores.max(axis=-1)
            found = []
            for index in np.flatnonzero(best > threshold):
                cx, cy, w, h = frame_boxes[index]
                box = ((cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width, (cy + h / 2) * height)
                found.append(Detection(tuple(map(float, box)), float(best[index]), int(labels[index])))
            results.append(found)
        return results


if __name__ == "__main__":
    detector = Detector("detector.onnx")
    rng = np.random.default_rng(0)
    for _ in range(10):
        frames = [rng.integers(0, 255, (1080, 1920, 3), dtype=np.uint8) for _ in range(8)]
        print([len(found) for found in detector.predict(frames)])
