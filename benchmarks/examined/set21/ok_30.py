"""Depth camera operators that pass device tensors with their streams' events."""
from dataclasses import dataclass
from typing import Any, Dict

import cupy as cp
import cupyx
import numpy as np

_unproject = cp.RawKernel(
    r"""
extern "C" __global__ void unproject(const unsigned short* depth, float* xyz, int w, int h,
                                     float fx, float fy, float cx, float cy) {
    int u = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y;
    if (u >= w) return;
    float z = depth[v * w + u] * 0.001f;
    float* p = xyz + 3 * (v * w + u);
    p[0] = (u - cx) / fx * z; p[1] = (v - cy) / fy * z; p[2] = z;
}
""",
    "unproject",
)


@dataclass
class Message:
    tensor: Any
    ready: Any


class Operator:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def receive(self, inputs: Dict[str, Message], name):
        msg = inputs.get(name)
        if msg is None:
            return None
        self.stream.wait_event(msg.ready)
        return msg.tensor

    def emit(self, tensor):
        return Message(tensor, self.stream.record())


class CameraSourceOp(Operator):
    def __init__(self, width, height):
        super().__init__()
        self.depth_host = cupyx.empty_pinned((height, width), dtype=np.uint16)
        self.depth = cp.empty((height, width), dtype=cp.uint16)
        self.intrinsics = cp.empty(4, dtype=cp.float32)

    def compute(self, frame, intrinsics):
        self.depth_host[...] = frame
        self.depth.set(self.depth_host, stream=self.stream)
        self.intrinsics.set(np.asarray(intrinsics, dtype=np.float32), stream=self.stream)
        return {"depth": self.emit(self.depth), "intrinsics": self.emit(self.intrinsics)}


class DepthToPointCloudOp(Operator):
    def __init__(self, width, height, defaults):
        super().__init__()
        self.width, self.height = width, height
        self.defaults = np.asarray(defaults, dtype=np.float32)
        self.host_intrinsics = cupyx.empty_pinned(4, dtype=np.float32)
        self.points = cp.empty((height, width, 3), dtype=cp.float32)

    def _read_intrinsics(self, inputs):
        tensor = self.receive(inputs, "intrinsics")
        if tensor is None:
            return self.defaults
        tensor.get(stream=self.stream, out=self.host_intrinsics, blocking=False)
        self.stream.synchronize()
        return self.host_intrinsics

    def compute(self, inputs):
        depth = self.receive(inputs, "depth")
        fx, fy, cx, cy = (np.float32(v) for v in self._read_intrinsics(inputs))
        with self.stream:
            _unproject(((self.width + 127) // 128, self.height), (128,),
                       (depth, self.points, np.int32(self.width), np.int32(self.height), fx, fy, cx, cy))
        return {"points": self.emit(self.points)}


class BoundsOp(Operator):
    def compute(self, inputs):
        points = self.receive(inputs, "points")
        with self.stream:
            flat = points.reshape(-1, 3)
            bounds = cp.stack([flat.min(axis=0), flat.max(axis=0)])
        return bounds.get(stream=self.stream)


def run(frames, intrinsics, width=640, height=480):
    camera = CameraSourceOp(width, height)
    cloud = DepthToPointCloudOp(width, height, (525.0, 525.0, 319.5, 239.5))
    sink = BoundsOp()
    results = []
    for i, frame in enumerate(frames):
        out = camera.compute(frame, intrinsics)
        if i % 30:
            out.pop("intrinsics")
        results.append(sink.compute(cloud.compute(out)))
    return results
