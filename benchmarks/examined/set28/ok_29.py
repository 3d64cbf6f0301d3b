"""OCR service: text detection and recognition engines that share one activation buffer."""
import cupy as cp
import cupyx
import numpy as np
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


def load_engine(path):
    with open(path, "rb") as f, trt.Runtime(LOGGER) as runtime:
        return runtime.deserialize_cuda_engine(f.read())


class Stage:
    """An execution context without memory of its own, plus its device tensors."""

    def __init__(self, path):
        self.engine = load_engine(path)
        self.context = self.engine.create_execution_context_without_device_memory()
        self.tensors = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            dtype = trt.nptype(self.engine.get_tensor_dtype(name))
            self.tensors[name] = cp.zeros(shape, dtype=dtype)
            self.context.set_tensor_address(name, self.tensors[name].data.ptr)

    def enqueue(self, stream):
        if not self.context.execute_async_v3(stream.ptr):
            raise RuntimeError("enqueue failed")


class TextSpotter:
    def __init__(self, det_path, rec_path, max_words=32):
        self.det = Stage(det_path)
        self.rec = Stage(rec_path)
        scratch = max(self.det.engine.device_memory_size, self.rec.engine.device_memory_size)
        self.scratch = cp.empty(scratch, dtype=cp.uint8)
        self.det.context.device_memory = self.scratch.data.ptr
        self.rec.context.device_memory = self.scratch.data.ptr
        self.max_words = max_words
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_image = cupyx.empty_pinned(self.det.tensors["image"].shape, dtype=np.float32)
        self.host_boxes = cupyx.empty_pinned(self.det.tensors["boxes"].shape, dtype=np.float32)
        self.host_logits = cupyx.empty_pinned(self.rec.tensors["logits"].shape, dtype=np.float32)
        cp.cuda.Device().synchronize()

    def _detect(self, image):
        self.host_image[...] = image
        self.det.tensors["image"].set(self.host_image, stream=self.stream)
        self.det.enqueue(self.stream)
        self.det.tensors["boxes"].get(stream=self.stream, out=self.host_boxes, blocking=False)
        self.stream.synchronize()
        return [b for b in self.host_boxes[0] if b[4] > 0.5][: self.max_words]

    def _recognise(self, box):
        x0, y0, x1, y1 = (int(v) for v in box[:4])
        dst = self.rec.tensors["crop"]
        with self.stream:
            src = self.det.tensors["image"][:, :, y0:y1, x0:x1]
            h = min(src.shape[2], dst.shape[2])
            w = min(src.shape[3], dst.shape[3])
            dst.fill(0)
            dst[:, :, :h, :w] = src[:, :, :h, :w]
        self.rec.enqueue(self.stream)
        self.rec.tensors["logits"].get(stream=self.stream, out=self.host_logits, blocking=False)
        self.stream.synchronize()
        return self.host_logits[0].argmax(axis=-1).copy()

    def __call__(self, image):
        words = []
        for box in self._detect(image):
            words.append((box.copy(), self._recognise(box)))
        return words


def main():
    spotter = TextSpotter("det.engine", "rec.engine")
    frames = np.load("frames.npy", mmap_mode="r")
    for k, frame in enumerate(frames):
        print(k, [w.tolist() for _, w in spotter(frame[None])])


if __name__ == "__main__":
    main()
