"""Response path of a Python model server: torch results leave through pinned buffers."""
import threading

import numpy as np
import torch
from cuda.bindings import runtime as rt
from torch import nn


def _check(result):
    err, *values = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"runtime call failed: {err}")
    return values[0] if values else None


class PbTensor:
    """A named view of device memory that belongs to another framework."""

    def __init__(self, name, pointer, shape, dtype, owner):
        self.name = name
        self.pointer = pointer
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.owner = owner

    @classmethod
    def from_external(cls, name, external):
        view = external.__cuda_array_interface__
        _check(rt.cudaStreamSynchronize(0))
        return cls(name, view["data"][0], view["shape"], view["typestr"], external)

    @property
    def nbytes(self):
        return int(np.prod(self.shape)) * self.dtype.itemsize


class ResponseWriter:
    """Copies response tensors to the host on a stream of its own."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.stream = _check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.buffer = torch.empty(capacity, dtype=torch.uint8, pin_memory=True)
        self._lock = threading.Lock()

    def send(self, tensor):
        if tensor.nbytes > self.capacity:
            raise ValueError("response does not fit")
        with self._lock:
            kind = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
            _check(rt.cudaMemcpyAsync(
                self.buffer.data_ptr(), tensor.pointer, tensor.nbytes, kind, self.stream))
            _check(rt.cudaStreamSynchronize(self.stream))
            raw = self.buffer[: tensor.nbytes].numpy()
            return raw.view(tensor.dtype).reshape(tensor.shape).copy()


class PreprocessingModel:
    """One instance; each request runs on the instance's stream."""

    def __init__(self, device="cuda:0"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device=self.device)
        with torch.cuda.stream(self.stream):
            self.net = nn.Sequential(
                nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU(),
                nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(),
                nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(128 * 64, 512),
            ).to(self.device).eval()
        self.stream.synchronize()

    @torch.inference_mode()
    def execute(self, requests):
        responses = []
        with torch.cuda.stream(self.stream):
            for images in requests:
                batch = torch.from_numpy(images).pin_memory()
                batch = batch.to(self.device, non_blocking=True).float().div_(255)
                features = self.net(batch.permute(0, 3, 1, 2))
                responses.append(PbTensor.from_external("PREPROCESSING_OUTPUT", features))
        return responses


class Server:
    def __init__(self, model, writer):
        self.model = model
        self.writer = writer

    def infer(self, requests):
        return [self.writer.send(t) for t in self.model.execute(requests)]


if __name__ == "__main__":
    server = Server(PreprocessingModel(), ResponseWriter(1 << 24))
    images = [np.random.randint(0, 255, (32, 512, 512, 3), dtype=np.uint8) for _ in range(4)]
    for _ in range(8):
        outputs = server.infer(images)
    print(outputs[0].shape)
