"""Python backend model: torch preprocessing followed by CuPy feature extraction."""
from typing import Dict, List

import cupy as cp
import numpy as np
import torch
from torch.utils.dlpack import to_dlpack

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class Request:
    def __init__(self, image: np.ndarray):
        self.tensors = {"IMAGE": image}

    def input(self, name: str) -> np.ndarray:
        return self.tensors[name]


class Response:
    def __init__(self, outputs: Dict[str, np.ndarray]):
        self.outputs = outputs


class TritonPythonModel:
    def initialize(self, args: Dict[str, str]):
        self.device = torch.device("cuda", int(args.get("model_instance_device_id", 0)))
        torch.cuda.set_device(self.device)
        self.stream = torch.cuda.Stream(self.device)
        self.mean = torch.tensor(MEAN, device=self.device).view(1, 3, 1, 1)
        self.std = torch.tensor(STD, device=self.device).view(1, 3, 1, 1)
        torch.cuda.synchronize(self.device)

    def _preprocess(self, images: np.ndarray) -> torch.Tensor:
        batch = torch.from_numpy(images).to(self.device)
        batch = batch.permute(0, 3, 1, 2).float().div_(255)
        batch = torch.nn.functional.interpolate(
            batch, size=(512, 512), mode="bilinear", align_corners=False
        )
        return batch.sub_(self.mean).div_(self.std)

    def _features(self, array: cp.ndarray) -> cp.ndarray:
        n, c = array.shape[:2]
        flat = array.reshape(n, c, -1)
        mean = flat.mean(axis=-1)
        var = flat.var(axis=-1)
        edges = cp.abs(cp.diff(array, axis=-1)).mean(axis=(1, 2, 3))
        return cp.concatenate([mean, var, edges[:, None]], axis=1)

    def execute(self, requests: List[Request]) -> List[Response]:
        responses = []
        for request in requests:
            with torch.cuda.stream(self.stream):
                batch = self._preprocess(request.input("IMAGE"))
            array = cp.fromDlpack(to_dlpack(batch))
            features = self._features(array)
            responses.append(Response({"FEATURES": cp.asnumpy(features)}))
        return responses

    def finalize(self):
        self.stream.synchronize()


def main(count: int = 16):
    model = TritonPythonModel()
    model.initialize({"model_instance_device_id": "0"})
    rng = np.random.default_rng(0)
    requests = [
        Request(rng.integers(0, 256, size=(8, 720, 1280, 3), dtype=np.uint8))
        for _ in range(count)
    ]
    responses = model.execute(requests)
    model.finalize()
    print(np.stack([r.outputs["FEATURES"].mean(axis=0) for r in responses]).mean(axis=0))


if __name__ == "__main__":
    main()
