"""Two-stage TensorRT detector/recogniser driven through PyCUDA."""
import argparse
import os
from dataclasses import dataclass
from typing import Dict, List, Optional

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


@dataclass
class Binding:
    name: str
    shape: tuple
    dtype: np.dtype
    is_input: bool
    host: Optional[np.ndarray] = None
    device: Optional[cuda.DeviceAllocation] = None

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize


class TRTStage:
    """One engine with its own context, buffers and stream."""

    def __init__(self, path: str, host_inputs: bool = True, host_outputs: bool = True):
        with open(path, "rb") as f, trt.Runtime(LOGGER) as rt:
            self.engine = rt.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.host_inputs = host_inputs
        self.host_outputs = host_outputs
        self.bindings: Dict[str, Binding] = {}
        for i in range(self.engine.num_io_tensors):
            self._add(self.engine.get_tensor_name(i))

    def _add(self, name: str) -> None:
        is_in = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        b = Binding(
            name,
            tuple(self.engine.get_tensor_shape(name)),
            np.dtype(trt.nptype(self.engine.get_tensor_dtype(name))),
            is_in,
        )
        wants_host = self.host_inputs if is_in else self.host_outputs
        if wants_host:
            b.host = cuda.pagelocked_empty(b.shape, b.dtype)
        b.device = cuda.mem_alloc(b.nbytes)
        self.context.set_tensor_address(name, int(b.device))
        self.bindings[name] = b

    @property
    def inputs(self) -> List[Binding]:
        return [b for b in self.bindings.values() if b.is_input]

    @property
    def outputs(self) -> List[Binding]:
        return [b for b in self.bindings.values() if not b.is_input]

    def attach(self, name: str, source: Binding) -> None:
        dst = self.bindings[name]
        assert dst.nbytes == source.nbytes, (dst.shape, source.shape)
        dst.device.free()
        dst.device = source.device
        self.context.set_tensor_address(name, int(source.device))

    def upload(self) -> None:
        for b in self.inputs:
            if b.host is not None:
                cuda.memcpy_htod_async(b.device, b.host, self.stream)

    def enqueue(self) -> None:
        ok = self.context.execute_async_v3(self.stream.handle)
        if not ok:
            raise RuntimeError("enqueue failed")

    def download(self) -> List[np.ndarray]:
        for b in self.outputs:
            cuda.memcpy_dtoh_async(b.host, b.device, self.stream)
        self.stream.synchronize()
        return [b.host.copy() for b in self.outputs]


class Cascade:
    def __init__(self, encoder: str, decoder: str):
        self.encoder = TRTStage(encoder, host_inputs=True, host_outputs=False)
        self.decoder = TRTStage(decoder, host_inputs=False, host_outputs=True)
        feat = self.encoder.outputs[0]
        self.decoder.attach(self.decoder.inputs[0].name, feat)
        self.frames = 0

    def preprocess(self, image: np.ndarray) -> None:
        dst = self.encoder.inputs[0].host
        h, w = dst.shape[-2:]
        ys = np.linspace(0, image.shape[0] - 1, h).astype(int)
        xs = np.linspace(0, image.shape[1] - 1, w).astype(int)
        small = image[ys][:, xs].astype(np.float32) / 255.0
        dst[0] = small.transpose(2, 0, 1)

    def infer(self, image: np.ndarray) -> List[np.ndarray]:
        self.preprocess(image)
        self.encoder.upload()
        self.encoder.enqueue()
        self.decoder.enqueue()
        out = self.decoder.download()
        self.frames += 1
        return out


def frames(source: str):
    for name in sorted(os.listdir(source)):
        if name.endswith(".npy"):
            yield name, np.load(os.path.join(source, name))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("encoder")
    ap.add_argument("decoder")
    ap.add_argument("source")
    ap.add_argument("--gpu", type=int, default=0)
    args = ap.parse_args()
    cuda.init()
    ctx = cuda.Device(args.gpu).make_context()
    try:
        pipe = Cascade(args.encoder, args.decoder)
        for name, img in frames(args.source):
            scores = pipe.infer(img)[0]
            print(name, scores.reshape(-1)[:5])
        print(pipe.frames, "frames")
    finally:
        ctx.pop()


if __name__ == "__main__":
    main()
