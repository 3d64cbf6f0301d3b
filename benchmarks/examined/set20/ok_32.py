"""Streaming detector: CuPy pre/post-processing around an ONNX Runtime session."""
import cupy as cp
import cupyx
import numpy as np
import onnxruntime as ort


class PinnedFrame:
    def __init__(self, shape):
        self.host = cupyx.empty_pinned(shape, dtype=np.uint8)
        self.uploaded = cp.cuda.Event(disable_timing=True)


class Detector:
    def __init__(self, model_path, height=640, width=640, max_boxes=300):
        self.stream = cp.cuda.Stream(non_blocking=True)
        providers = [("CUDAExecutionProvider", {
            "device_id": 0,
            "user_compute_stream": str(self.stream.ptr),
        })]
        self.session = ort.InferenceSession(model_path, providers=providers)
        self.frames = [PinnedFrame((height, width, 3)) for _ in range(2)]
        with self.stream:
            self.raw = cp.empty((height, width, 3), dtype=cp.uint8)
            self.input = cp.empty((1, 3, height, width), dtype=cp.float32)
            self.boxes = cp.empty((1, max_boxes, 6), dtype=cp.float32)
        self.host_boxes = [cupyx.empty_pinned((max_boxes, 6), dtype=np.float32) for _ in range(2)]
        self.downloaded = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.binding = self.session.io_binding()
        self.binding.bind_input("images", "cuda", 0, np.float32, self.input.shape, self.input.data.ptr)
        self.binding.bind_output("boxes", "cuda", 0, np.float32, self.boxes.shape, self.boxes.data.ptr)
        self.options = ort.RunOptions()
        self.options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.count = 0

    def submit(self, image):
        slot = self.count % 2
        frame = self.frames[slot]
        frame.uploaded.synchronize()
        frame.host[...] = image
        self.raw.set(frame.host, stream=self.stream)
        frame.uploaded.record(self.stream)
        with self.stream:
            scaled = self.raw.transpose(2, 0, 1).astype(cp.float32)
            cp.multiply(scaled, np.float32(1 / 255), out=self.input[0])
        self.session.run_with_iobinding(self.binding, self.options)
        with self.stream:
            keep = self.boxes[0, :, 4:5] > 0.25
            picked = cp.where(keep, self.boxes[0], 0.0).astype(cp.float32)
        picked.get(stream=self.stream, out=self.host_boxes[slot], blocking=False)
        self.downloaded[slot].record(self.stream)
        self.count += 1
        return slot

    def result(self, slot):
        self.downloaded[slot].synchronize()
        boxes = self.host_boxes[slot]
        return boxes[boxes[:, 4] > 0].copy()


def main(model_path="detector.onnx", nframes=30):
    rng = np.random.default_rng(0)
    detector = Detector(model_path)
    results = []
    previous = None
    for _ in range(nframes):
        slot = detector.submit(rng.integers(0, 256, (640, 640, 3), dtype=np.uint8))
        if previous is not None:
            results.append(detector.result(previous))
        previous = slot
    results.append(detector.result(previous))
    return results


if __name__ == "__main__":
    print(len(main()))
