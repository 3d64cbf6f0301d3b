"""Camera detector on an integrated GPU: buffers live in managed memory."""
import argparse
import time
from dataclasses import dataclass
from typing import List, NamedTuple, Tuple

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt
from pycuda.compiler import SourceModule

KERNELS = SourceModule(
    """
    __global__ void normalise(const unsigned char *src, float *dst, int h, int w, float scale) {
        int x = blockIdx.x * blockDim.x + threadIdx.x;
        int y = blockIdx.y * blockDim.y + threadIdx.y;
        if (x >= w || y >= h) return;
        for (int c = 0; c < 3; ++c)
            dst[c * h * w + y * w + x] = src[(y * w + x) * 3 + c] * scale - 0.5f;
    }
    """
)


class Detection(NamedTuple):
    cls: int
    score: float
    box: Tuple[float, float, float, float]


@dataclass
class DetectorConfig:
    engine: str
    height: int = 640
    width: int = 640
    threshold: float = 0.4
    iou: float = 0.5
    max_det: int = 100


def managed(shape, dtype) -> np.ndarray:
    return cuda.managed_empty(shape, dtype, mem_flags=cuda.mem_attach_flags.GLOBAL)


def address(arr: np.ndarray) -> int:
    return arr.ctypes.data


def nms(boxes: np.ndarray, scores: np.ndarray, iou: float) -> List[int]:
    order = scores.argsort()[::-1]
    keep: List[int] = []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while order.size:
        i = order[0]
        keep.append(int(i))
        tl = np.maximum(boxes[i, :2], boxes[order[1:], :2])
        br = np.minimum(boxes[i, 2:], boxes[order[1:], 2:])
        inter = np.prod(np.clip(br - tl, 0, None), axis=1)
        order = order[1:][inter / (area[i] + area[order[1:]] - inter + 1e-6) <= iou]
    return keep


class ManagedDetector:
    def __init__(self, cfg: DetectorConfig):
        self.cfg = cfg
        logger = trt.Logger(trt.Logger.ERROR)
        with open(cfg.engine, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.frame = managed((cfg.height, cfg.width, 3), np.uint8)
        self.tensor = managed((1, 3, cfg.height, cfg.width), np.float32)
        self.raw = managed((8400, 6), np.float32)
        self.normalise = KERNELS.get_function("normalise")
        self.context.set_tensor_address("images", address(self.tensor))
        self.context.set_tensor_address("output0", address(self.raw))
        self.latency: List[float] = []

    def _launch(self, image: np.ndarray) -> None:
        self.frame[...] = image
        h, w = self.cfg.height, self.cfg.width
        self.normalise(
            self.frame,
            self.tensor,
            np.int32(h),
            np.int32(w),
            np.float32(1 / 255.0),
            block=(16, 16, 1),
            grid=((w + 15) // 16, (h + 15) // 16),
            stream=self.stream,
        )
        self.context.execute_async_v3(self.stream.handle)

    def _decode(self) -> List[Detection]:
        rows = self.raw[self.raw[:, 4] > self.cfg.threshold]
        if not len(rows):
            return []
        half = rows[:, 2:4] / 2
        boxes = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1)
        keep = nms(boxes, rows[:, 4], self.cfg.iou)[: self.cfg.max_det]
        return [Detection(int(rows[k, 5]), float(rows[k, 4]), tuple(boxes[k])) for k in keep]

    def detect(self, image: np.ndarray) -> List[Detection]:
        t0 = time.perf_counter()
        self._launch(image)
        dets = self._decode()
        self.stream.synchronize()
        self.latency.append(time.perf_counter() - t0)
        return dets


class SyntheticCamera:
    def __init__(self, h: int, w: int, n: int, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.h, self.w, self.n = h, w, n

    def __iter__(self):
        for _ in range(self.n):
            yield self.rng.integers(0, 255, (self.h, self.w, 3), dtype=np.uint8)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("engine")
    ap.add_argument("--frames", type=int, default=300)
    ap.add_argument("--threshold", type=float, default=0.4)
    args = ap.parse_args()
    det = ManagedDetector(DetectorConfig(args.engine, threshold=args.threshold))
    cam = SyntheticCamera(det.cfg.height, det.cfg.width, args.frames)
    for i, img in enumerate(cam):
        found = det.detect(img)
        if i % 30 == 0:
            print(i, len(found), found[:2])
    print("mean latency", np.mean(det.latency))


if __name__ == "__main__":
    main()
