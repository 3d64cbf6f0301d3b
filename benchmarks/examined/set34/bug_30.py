"""TensorRT detector with a CuPy letterbox kernel in front of the engine."""
from typing import Dict, List

import cupy as cp
import numpy as np
import tensorrt as trt

_LETTERBOX = cp.RawKernel(
    r"""
extern "C" __global__
void letterbox(const unsigned char* src, int sw, int sh, float* dst, int dw, int dh, float scale) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= dw || y >= dh) return;
    int sx = (int)((x - 0.5f * (dw - sw * scale)) / scale);
    int sy = (int)((y - 0.5f * (dh - sh * scale)) / scale);
    for (int c = 0; c < 3; ++c) {
        float v = 114.f;
        if (sx >= 0 && sx < sw && sy >= 0 && sy < sh) v = src[(sy * sw + sx) * 3 + (2 - c)];
        dst[(c * dh + y) * dw + x] = v * (1.f / 255.f);
    }
}
""",
    "letterbox",
)


def letterbox(src: cp.ndarray, dst: cp.ndarray) -> float:
    sh, sw = src.shape[:2]
    dh, dw = dst.shape[-2:]
    scale = min(dw / sw, dh / sh)
    block = (16, 16)
    grid = ((dw + 15) // 16, (dh + 15) // 16)
    _LETTERBOX(
        grid,
        block,
        (src, np.int32(sw), np.int32(sh), dst, np.int32(dw), np.int32(dh), np.float32(scale)),
    )
    return scale


class Detector:
    def __init__(self, engine_path: str, frame_shape=(1080, 1920, 3)):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(engine_path, "rb") as f, trt.Runtime(logger) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.frame = cp.zeros(frame_shape, dtype=cp.uint8)
        self.tensors: Dict[str, cp.ndarray] = {}
        self.outputs: List[str] = []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            dtype = trt.nptype(self.engine.get_tensor_dtype(name))
            self.tensors[name] = cp.zeros(shape, dtype=dtype)
            self.context.set_tensor_address(name, self.tensors[name].data.ptr)
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
                self.outputs.append(name)
            else:
                self.input = name
        cp.cuda.Device().synchronize()

    def infer(self, image: np.ndarray) -> Dict[str, np.ndarray]:
        self.frame.set(image, stream=self.stream)
        self.stream.synchronize()
        scale = letterbox(self.frame, self.tensors[self.input])
        if not self.context.execute_async_v3(self.stream.ptr):
            raise RuntimeError("enqueue failed")
        result = {
            name: self.tensors[name].get(stream=self.stream, blocking=False)
            for name in self.outputs
        }
        self.stream.synchronize()
        result["scale"] = np.float32(scale)
        return result


def main(path: str = "yolov5s.engine", frames: int = 500) -> None:
    detector = Detector(path)
    rng = np.random.default_rng(0)
    for _ in range(frames):
        image = rng.integers(0, 255, size=(1080, 1920, 3), dtype=np.uint8)
        out = detector.infer(image)
        print({k: v.shape for k, v in out.items()})


if __name__ == "__main__":
    main()
