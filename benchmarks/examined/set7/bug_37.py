import json
from typing import List

import torch
import torch.nn.functional as F
import triton_python_backend_utils as pb_utils


class Normalizer(torch.nn.Module):
    def __init__(self, size: int, device: torch.device):
        super().__init__()
        self.size = size
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = image.permute(2, 0, 1)[None].float() / 255.0
        x = F.interpolate(x, size=(self.size, self.size), mode="bicubic", antialias=True, align_corners=False)
        return ((x - self.mean) / self.std).contiguous()


class TritonPythonModel:
    def initialize(self, args):
        self.model_config = json.loads(args["model_config"])
        device_id = int(args.get("model_instance_device_id", "0"))
        self.device = torch.device("cuda", device_id)
        torch.cuda.set_device(self.device)
        params = self.model_config.get("parameters", {})
        self.size = int(params.get("image_size", {"string_value": "224"})["string_value"])
        self.normalizer = Normalizer(self.size, self.device)
        self.stream = torch.cuda.Stream(self.device)
        self.logger = pb_utils.Logger

    @torch.inference_mode()
    def _preprocess(self, image: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(self.stream):
            image = image.to(self.device, non_blocking=True)
            return self.normalizer(image)

    def _to_response(self, pixels: torch.Tensor) -> "pb_utils.InferenceResponse":
        out = pb_utils.Tensor.from_dlpack("PREPROCESSING_OUTPUT", pixels.__dlpack__())
        return pb_utils.InferenceResponse(output_tensors=[out])

    def execute(self, requests) -> List["pb_utils.InferenceResponse"]:
        responses = []
        for request in requests:
            raw = pb_utils.get_input_tensor_by_name(request, "IMAGE")
            try:
                image = torch.from_numpy(raw.as_numpy()).pin_memory()
                pixels = self._preprocess(image)
                responses.append(self._to_response(pixels))
            except RuntimeError as e:
                self.logger.log_error(f"preprocessing failed: {e}")
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(e))))
        return responses

    def finalize(self):
        torch.cuda.synchronize(self.device)
