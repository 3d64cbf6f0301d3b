"""TensorRT inference replayed from a CUDA graph that includes the transfers."""
import argparse
import ctypes
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Optional

import numpy as np
import tensorrt as trt
from cuda import cudart


def cu(ret):
    err, vals = ret[0], ret[1:]
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return vals[0] if len(vals) == 1 else vals


class PinnedArray:
    def __init__(self, shape, dtype):
        self.dtype = np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        self.ptr = cu(cudart.cudaHostAlloc(self.nbytes, cudart.cudaHostAllocDefault))
        raw = (ctypes.c_byte * self.nbytes).from_address(int(self.ptr))
        self.array = np.frombuffer(raw, dtype=self.dtype).reshape(shape)

    def free(self) -> None:
        cu(cudart.cudaFreeHost(self.ptr))


@dataclass
class Port:
    name: str
    host: PinnedArray
    device: int
    is_input: bool


class GraphedEngine:
    def __init__(self, plan: str, use_graph: bool = True):
        self.logger = trt.Logger(trt.Logger.WARNING)
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cu(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.ports: Dict[str, Port] = {}
        for i in range(self.engine.num_io_tensors):
            self._bind(self.engine.get_tensor_name(i))
        self.exec: Optional[object] = None
        self._enqueue()
        cu(cudart.cudaStreamSynchronize(self.stream))
        if use_graph:
            self._capture()

    def _bind(self, name: str) -> None:
        shape = tuple(self.engine.get_tensor_shape(name))
        host = PinnedArray(shape, trt.nptype(self.engine.get_tensor_dtype(name)))
        dev = cu(cudart.cudaMalloc(host.nbytes))
        self.context.set_tensor_address(name, int(dev))
        is_in = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        self.ports[name] = Port(name, host, dev, is_in)

    def _enqueue(self) -> None:
        kinds = cudart.cudaMemcpyKind
        for p in self.ports.values():
            if p.is_input:
                cu(cudart.cudaMemcpyAsync(
                    p.device, p.host.ptr, p.host.nbytes, kinds.cudaMemcpyHostToDevice, self.stream))
        self.context.execute_async_v3(self.stream)
        for p in self.ports.values():
            if not p.is_input:
                cu(cudart.cudaMemcpyAsync(
                    p.host.ptr, p.device, p.host.nbytes, kinds.cudaMemcpyDeviceToHost, self.stream))

    def _capture(self) -> None:
        mode = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        cu(cudart.cudaStreamBeginCapture(self.stream, mode))
        self._enqueue()
        graph = cu(cudart.cudaStreamEndCapture(self.stream))
        self.exec = cu(cudart.cudaGraphInstantiate(graph, 0))
        cu(cudart.cudaGraphDestroy(graph))

    def feed(self, name: str, value: np.ndarray) -> None:
        np.copyto(self.ports[name].host.array, value)

    def launch(self) -> None:
        if self.exec is not None:
            cu(cudart.cudaGraphLaunch(self.exec, self.stream))
        else:
            self._enqueue()

    def fetch(self) -> Dict[str, np.ndarray]:
        cu(cudart.cudaStreamSynchronize(self.stream))
        return {p.name: p.host.array.copy() for p in self.ports.values() if not p.is_input}

    def close(self) -> None:
        cu(cudart.cudaStreamSynchronize(self.stream))
        if self.exec is not None:
            cu(cudart.cudaGraphExecDestroy(self.exec))
        for p in self.ports.values():
            p.host.free()
            cu(cudart.cudaFree(p.device))
        cu(cudart.cudaStreamDestroy(self.stream))


class TemporalFilter:
    """Exponential smoothing of logits; only every k-th prediction is reported."""

    def __init__(self, every: int, decay: float = 0.7):
        self.every, self.decay = every, decay
        self.state: Optional[np.ndarray] = None
        self.seen = 0

    def due(self) -> bool:
        self.seen += 1
        return self.seen % self.every == 0

    def update(self, logits: np.ndarray) -> np.ndarray:
        self.state = logits if self.state is None else self.decay * self.state + (1 - self.decay) * logits
        return self.state


class VideoClassifier:
    def __init__(self, engine: GraphedEngine, every: int):
        self.engine = engine
        self.filter = TemporalFilter(every)

    def run(self, frames: Iterable[np.ndarray]) -> Iterator[int]:
        for frame in frames:
            self.engine.feed("frame", frame)
            self.engine.launch()
            if self.filter.due():
                out = self.engine.fetch()
                yield int(self.filter.update(out["logits"]).argmax())


def clip(n: int, shape, seed: int = 0) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield rng.standard_normal(shape, dtype=np.float32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("plan")
    ap.add_argument("--frames", type=int, default=240)
    ap.add_argument("--every", type=int, default=8)
    args = ap.parse_args()
    eng = GraphedEngine(args.plan)
    labels: List[int] = list(VideoClassifier(eng, args.every).run(clip(args.frames, eng.ports["frame"].host.array.shape)))
    print(labels)
    eng.close()


if __name__ == "__main__":
    main()
