"""Triton Inference Server python backend model: image preprocessing on the GPU."""
import json

import torch
import torch.nn.functional as F
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack, to_dlpack


class TritonPythonModel:
    def initialize(self, args):
        self.model_config = json.loads(args["model_config"])
        self.device = torch.device("cuda", int(args["model_instance_device_id"]))
        params = self.model_config.get("parameters", {})
        self.size = int(params.get("size", {"string_value": "224"})["string_value"])
        mean = torch.tensor([0.485, 0.456, 0.406], device=self.device)
        std = torch.tensor([0.229, 0.224, 0.225], device=self.device)
        self.mean = mean.view(1, 3, 1, 1)
        self.std = std.view(1, 3, 1, 1)
        self.stream = torch.cuda.Stream(self.device)
        torch.cuda.synchronize(self.device)

    def _decode(self, request) -> torch.Tensor:
        tensor = pb_utils.get_input_tensor_by_name(request, "IMAGE")
        if tensor.is_cpu():
            return torch.from_numpy(tensor.as_numpy()).to(self.device)
        return from_dlpack(tensor.to_dlpack())

    def _preprocess(self, images: torch.Tensor) -> torch.Tensor:
        x = images.permute(0, 3, 1, 2).to(torch.float32) / 255.0
        scale = self.size / min(x.shape[-2:])
        x = F.interpolate(x, scale_factor=scale, mode="bicubic", antialias=True)
        top = (x.shape[-2] - self.size) // 2
        left = (x.shape[-1] - self.size) // 2
        x = x[..., top : top + self.size, left : left + self.size]
        return ((x - self.mean) / self.std).contiguous()

    def execute(self, requests):
        responses = []
        keep_inputs = []
        for request in requests:
            try:
                images = self._decode(request)
            except pb_utils.TritonModelException as error:
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
                continue
            keep_inputs.append(images)
            with torch.cuda.stream(self.stream):
                output = self._preprocess(images)
            tensor = pb_utils.Tensor.from_dlpack("PREPROCESSING_OUTPUT", to_dlpack(output))
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses

    def finalize(self):
        torch.cuda.synchronize(self.device)
