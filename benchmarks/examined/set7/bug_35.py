from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np
import onnxruntime as ort
import torch
import torch.nn.functional as F

_NP_OF = {torch.float32: np.float32, torch.float16: np.float16, torch.int64: np.int64}


class OrtSession:
    """An onnxruntime session with preallocated device inputs and outputs."""

    def __init__(self, path: str, device_id: int, input_shape: Sequence[int], output_shapes: Dict[str, Sequence[int]],
                 use_tensorrt: bool = True):
        self.device = torch.device("cuda", device_id)
        providers: List = []
        if use_tensorrt:
            providers.append(("TensorrtExecutionProvider", {
                "device_id": device_id,
                "trt_fp16_enable": True,
                "trt_engine_cache_enable": True,
                "trt_engine_cache_path": "./trt_cache",
            }))
        providers.append(("CUDAExecutionProvider", {"device_id": device_id}))
        self.session = ort.InferenceSession(path, providers=providers)
        self.input_name = self.session.get_inputs()[0].name
        self.input = torch.zeros(tuple(input_shape), dtype=torch.float32, device=self.device)
        self.outputs = {
            name: torch.zeros(tuple(shape), dtype=torch.float32, device=self.device)
            for name, shape in output_shapes.items()
        }
        torch.cuda.synchronize(self.device)
        self.io_binding = self.session.io_binding()
        self._bind("input", self.input_name, self.input)
        for name, t in self.outputs.items():
            self._bind("output", name, t)

    def _bind(self, kind: str, name: str, t: torch.Tensor) -> None:
        fn = self.io_binding.bind_input if kind == "input" else self.io_binding.bind_output
        fn(name=name, device_type="cuda", device_id=self.device.index, element_type=_NP_OF[t.dtype],
           shape=tuple(t.shape), buffer_ptr=t.data_ptr())

    def run(self) -> Dict[str, torch.Tensor]:
        self.session.run_with_iobinding(self.io_binding)
        return self.outputs


class Letterbox:
    def __init__(self, size: int, device: torch.device):
        self.size = size
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1)

    def __call__(self, frames: torch.Tensor) -> Tuple[torch.Tensor, float]:
        n, h, w, _ = frames.shape
        scale = self.size / max(h, w)
        x = frames.permute(0, 3, 1, 2).float().div_(255.0)
        x = F.interpolate(x, size=(round(h * scale), round(w * scale)), mode="bilinear", align_corners=False)
        x = F.pad(x, (0, self.size - x.shape[3], 0, self.size - x.shape[2]))
        return (x - self.mean) / self.std, scale


class Detector:
    def __init__(self, path: str, batch: int, size: int = 640, device_id: int = 0, max_det: int = 300):
        self.ort = OrtSession(path, device_id, (batch, 3, size, size),
                              {"boxes": (batch, max_det, 4), "scores": (batch, max_det)})
        self.prep = Letterbox(size, self.ort.device)
        self.staging: Optional[torch.Tensor] = None

    def _upload(self, frames: np.ndarray) -> torch.Tensor:
        if self.staging is None or self.staging.shape != frames.shape:
            self.staging = torch.empty(frames.shape, dtype=torch.uint8, pin_memory=True)
        self.staging.numpy()[...] = frames
        return self.staging.to(self.ort.device, non_blocking=True)

    def detect(self, frames: np.ndarray, threshold: float = 0.4) -> List[torch.Tensor]:
        x, scale = self.prep(self._upload(frames))
        self.ort.input.copy_(x)
        out = self.ort.run()
        boxes, scores = out["boxes"] / scale, out["scores"]
        return [b[s > threshold].cpu() for b, s in zip(boxes, scores)]
