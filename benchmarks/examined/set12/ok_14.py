from typing import List

import numpy as np
import torch


class CudaJpegDecoder:
    _instances = {}

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.matrix = torch.tensor(
            [[1.0, 0.0, 1.402], [1.0, -0.344136, -0.714136], [1.0, 1.772, 0.0]], device=device
        )
        torch.cuda.synchronize(device)

    @classmethod
    def get(cls, device):
        device = torch.device(device)
        if device not in cls._instances:
            cls._instances[device] = cls(device)
        return cls._instances[device]

    def _reconstruct(self, coefficients: torch.Tensor, out: torch.Tensor):
        ycc = coefficients.to(self.device).float()
        ycc[1:] -= 128.0
        rgb = torch.einsum("ij,jhw->ihw", self.matrix, ycc)
        out.copy_(rgb.clamp_(0, 255))

    def decode_images(self, entropy_decoded: List[np.ndarray]):
        current = torch.cuda.current_stream(self.device)
        outputs = [
            torch.empty(c.shape, dtype=torch.uint8, device=self.device) for c in entropy_decoded
        ]
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            for c, out in zip(entropy_decoded, outputs):
                self._reconstruct(torch.from_numpy(c), out)
        current.wait_stream(self.stream)
        return outputs


def decode_jpeg(blobs, parser, device="cuda"):
    return CudaJpegDecoder.get(device).decode_images([parser(b) for b in blobs])


class FeatureExtractor:
    def __init__(self, backbone, parser, device="cuda"):
        self.backbone = backbone
        self.parser = parser
        self.device = device

    @torch.no_grad()
    def extract(self, batches):
        features = []
        for blobs in batches:
            images = decode_jpeg(blobs, self.parser, self.device)
            x = torch.stack([im.float().div(255.0) for im in images])
            del images
            features.append(self.backbone(x))
        return torch.cat(features).cpu()
