"""OCR pipeline: text detection on one stream, recognition of the crops on another."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt
from pycuda.compiler import SourceModule

CROP = r"""
__global__ void crop_resize(const float* img, const float* boxes, float* crops,
                            int h, int w, int nbox, int ch, int cw) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nbox * ch * cw) return;
    int b = i / (ch * cw), y = (i / cw) % ch, x = i % cw;
    const float* r = boxes + 4 * b;
    int sy = min(h - 1, max(0, (int)(r[1] + (r[3] - r[1]) * y / ch)));
    int sx = min(w - 1, max(0, (int)(r[0] + (r[2] - r[0]) * x / cw)));
    crops[i] = img[sy * w + sx];
}
"""


def load_engine(path, logger):
    with open(path, "rb") as f:
        return trt.Runtime(logger).deserialize_cuda_engine(f.read())


class Slot:
    def __init__(self, frame_shape, nbox, text_len):
        self.h_frame = cuda.pagelocked_empty(frame_shape, np.float32)
        self.h_text = cuda.pagelocked_empty((nbox, text_len), np.int32)
        self.d_frame = cuda.mem_alloc(self.h_frame.nbytes)
        self.d_boxes = cuda.mem_alloc(nbox * 4 * 4)
        self.detected = cuda.Event()
        self.recognized = cuda.Event()
        self.index = None


class OcrPipeline:
    def __init__(self, det_plan, rec_plan, frame_shape=(736, 1280), nbox=64, crop=(32, 128), text_len=24):
        logger = trt.Logger(trt.Logger.WARNING)
        self.engines = load_engine(det_plan, logger), load_engine(rec_plan, logger)
        self.det, self.rec = (e.create_execution_context() for e in self.engines)
        self.s_det, self.s_rec = cuda.Stream(), cuda.Stream()
        self.frame_shape, self.nbox, self.crop = frame_shape, nbox, crop
        self.slots = [Slot(frame_shape, nbox, text_len) for _ in range(2)]
        self.d_crops = cuda.mem_alloc(nbox * crop[0] * crop[1] * 4)
        self.d_text = cuda.mem_alloc(nbox * text_len * 4)
        self.crop_fn = SourceModule(CROP).get_function("crop_resize")
        self.rec.set_tensor_address("crops", int(self.d_crops))
        self.rec.set_tensor_address("text", int(self.d_text))

    def _collect(self, slot, results):
        if slot.index is None:
            return
        slot.recognized.synchronize()
        results[slot.index] = slot.h_text.copy()
        slot.index = None

    def _enqueue(self, slot, index, frame):
        slot.h_frame[...] = frame
        slot.index = index
        cuda.memcpy_htod_async(slot.d_frame, slot.h_frame, self.s_det)
        self.det.set_tensor_address("image", int(slot.d_frame))
        self.det.set_tensor_address("boxes", int(slot.d_boxes))
        self.det.execute_async_v3(self.s_det.handle)
        slot.detected.record(self.s_det)

        self.s_rec.wait_for_event(slot.detected)
        (h, w), (ch, cw) = self.frame_shape, self.crop
        total = self.nbox * ch * cw
        self.crop_fn(slot.d_frame, slot.d_boxes, self.d_crops, np.int32(h), np.int32(w),
                     np.int32(self.nbox), np.int32(ch), np.int32(cw),
                     block=(256, 1, 1), grid=((total + 255) // 256, 1), stream=self.s_rec)
        self.rec.execute_async_v3(self.s_rec.handle)
        cuda.memcpy_dtoh_async(slot.h_text, self.d_text, self.s_rec)
        slot.recognized.record(self.s_rec)

    def run(self, frames):
        results = {}
        for i, frame in enumerate(frames):
            slot = self.slots[i % len(self.slots)]
            self._collect(slot, results)
            self._enqueue(slot, i, frame)
        for slot in self.slots:
            self._collect(slot, results)
        return results


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    pipeline = OcrPipeline("det.plan", "rec.plan")
    out = pipeline.run(rng.random((736, 1280), dtype=np.float32) for _ in range(100))
    print(len(out))
