"""Python backend model: torch pre-processing, CuPy post-processing, DLPack in between."""
import cupy as cp
import numpy as np
import torch


class PbTensor:
    """A named tensor that wraps any object with the DLPack protocol."""

    def __init__(self, name, producer):
        self.name = name
        self._producer = producer

    @classmethod
    def from_dlpack(cls, name, producer):
        return cls(name, producer)

    def __dlpack__(self, stream=None):
        return self._producer.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self._producer.__dlpack_device__()


class Preprocess:
    def __init__(self, mean, std):
        self.stream = torch.cuda.Stream()
        self.mean = torch.tensor(mean, device="cuda").view(1, -1, 1, 1)
        self.std = torch.tensor(std, device="cuda").view(1, -1, 1, 1)
        torch.cuda.synchronize()

    def __call__(self, images, hand_over):
        """Normalise on the model's stream and pass the result on while it is current."""
        with torch.cuda.stream(self.stream):
            x = torch.from_numpy(images).to("cuda").float()
            x = (x / 255.0 - self.mean) / self.std
            x = torch.nn.functional.interpolate(x, size=(224, 224), mode="bilinear")
            return hand_over(PbTensor.from_dlpack("pixels", x.contiguous()))


_energy = cp.ReductionKernel("float32 x", "float32 y", "x * x", "a + b", "y = a", "0", "energy")


class Postprocess:
    """Per-image energy and a channel histogram on a CuPy stream."""

    def __init__(self, bins=32):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.edges = cp.linspace(-3, 3, bins + 1, dtype=cp.float32)
        self.stream.synchronize()

    def __call__(self, tensor):
        with self.stream:
            x = cp.from_dlpack(tensor)
            energy = _energy(x, axis=(1, 2, 3))
            hist, _ = cp.histogram(x, bins=self.edges)
            out = energy.get(stream=self.stream), hist.get(stream=self.stream)
        self.stream.synchronize()
        return out


class TritonPythonModel:
    def initialize(self, args):
        self.pre = Preprocess(args["mean"], args["std"])
        self.post = Postprocess(args.get("bins", 32))

    def execute(self, requests):
        responses = []
        for images in requests:
            energy, hist = self.pre(images, self.post)
            responses.append({"energy": energy, "histogram": hist.astype(np.int64)})
        return responses


def main(batches):
    model = TritonPythonModel()
    model.initialize({"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]})
    return model.execute(batches)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (8, 3, 512, 512), dtype=np.uint8) for _ in range(4)]
    for response in main(images):
        print(response["energy"].mean(), response["histogram"].sum())
