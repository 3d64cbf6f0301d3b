"""Segmentation service on a TensorRT engine, PyCUDA for the buffers."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import tensorrt as trt


class SegmentationEngine:
    """Runs a one-input one-output engine on host images."""

    def __init__(self, path, size=1024):
        self.logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as handle:
            self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(handle.read())
        self.context = self.engine.create_execution_context()
        self.stream = drv.Stream()
        self.size = size
        self.host_in = drv.pagelocked_empty(3 * size * size, np.float32)
        self.host_out = drv.pagelocked_empty(size * size, np.float32)
        self.dev_in = drv.mem_alloc(self.host_in.nbytes)
        self.dev_out = drv.mem_alloc(self.host_out.nbytes)
        self.context.set_tensor_address("image", int(self.dev_in))
        self.context.set_tensor_address("mask", int(self.dev_out))

    def _load(self, image):
        chw = np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32)
        np.copyto(self.host_in, chw.ravel() / 255.0)

    def infer(self, image):
        self._load(image)
        drv.memcpy_htod_async(self.dev_in, self.host_in, self.stream)
        self.context.execute_async_v3(stream_handle=self.stream.handle)
        drv.memcpy_dtoh_async(self.host_out, self.dev_out, self.stream)
        mask = self.host_out.reshape(self.size, self.size) > 0.5
        self.stream.synchronize()
        return mask


def coverage(engine_path, images):
    engine = SegmentationEngine(engine_path)
    areas = []
    for image in images:
        mask = engine.infer(image)
        areas.append(float(mask.mean()))
    return areas


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    batch = [rng.integers(0, 255, (1024, 1024, 3), dtype=np.uint8) for _ in range(8)]
    print(coverage("segmenter.plan", batch))
