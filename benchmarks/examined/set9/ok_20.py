from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch

_TORCH_TO_NUMPY = {torch.float32: np.float32, torch.float16: np.float16}
_ORT_TO_TORCH = {"tensor(float)": torch.float32, "tensor(float16)": torch.float16}


class OrtPredictor:
    """Runs an exported pose model on batches that are already on the GPU."""

    def __init__(self, onnx_path: Path, device_id: int = 0, precision: str = "fp32"):
        providers = [("CUDAExecutionProvider", {"device_id": device_id}), "CPUExecutionProvider"]
        self.session = ort.InferenceSession(str(onnx_path), providers=providers)
        self.device = torch.device("cuda", device_id)
        self.input_meta = self.session.get_inputs()[0]
        self.output_metas = self.session.get_outputs()
        self.input_dtype = _ORT_TO_TORCH[self.input_meta.type]
        self.precision = precision

    def _output_shape(self, meta, batch_size):
        return [batch_size if isinstance(dim, str) or dim is None else dim for dim in meta.shape]

    def predict(self, images: torch.Tensor) -> dict:
        images = images.to(self.input_dtype).contiguous()
        io_binding = self.session.io_binding()
        io_binding.bind_input(
            name=self.input_meta.name,
            device_type="cuda",
            device_id=self.device.index,
            element_type=_TORCH_TO_NUMPY[self.input_dtype],
            shape=tuple(images.shape),
            buffer_ptr=images.data_ptr(),
        )
        outputs = {}
        for meta in self.output_metas:
            dtype = _ORT_TO_TORCH[meta.type]
            out = torch.empty(self._output_shape(meta, images.shape[0]), dtype=dtype, device=self.device)
            io_binding.bind_output(
                name=meta.name,
                device_type="cuda",
                device_id=self.device.index,
                element_type=_TORCH_TO_NUMPY[dtype],
                shape=tuple(out.shape),
                buffer_ptr=out.data_ptr(),
            )
            outputs[meta.name] = out
        torch.cuda.synchronize(self.device)
        self.session.run_with_iobinding(io_binding)
        io_binding.synchronize_outputs()
        return outputs


def normalize(batch: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    return (batch.float() / 255.0 - mean) / std


def predict_video(predictor: OrtPredictor, loader, mean, std):
    mean = torch.tensor(mean, device=predictor.device).view(1, 3, 1, 1)
    std = torch.tensor(std, device=predictor.device).view(1, 3, 1, 1)
    keypoints, confidences = [], []
    for batch in loader:
        frames = normalize(batch["frames"].to(predictor.device, non_blocking=True), mean, std)
        outputs = predictor.predict(frames)
        keypoints.append(outputs["keypoints"].float().cpu())
        confidences.append(outputs["confidences"].float().cpu())
    return torch.cat(keypoints), torch.cat(confidences)
