import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt
import torch

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)


class SegmentationEngine:

    def __init__(self, engine_path, num_classes=19):
        with open(engine_path, "rb") as f, trt.Runtime(TRT_LOGGER) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.num_classes = num_classes
        self.stream = cuda.Stream()
        for i in range(self.engine.num_bindings):
            shape = self.engine.get_binding_shape(i)
            size = trt.volume(shape) * self.engine.max_batch_size
            dtype = trt.nptype(self.engine.get_binding_dtype(i))
            host = cuda.pagelocked_empty(size, dtype)
            device = cuda.mem_alloc(host.nbytes)
            if self.engine.binding_is_input(i):
                self.host_input, self.device_input = host, device
            else:
                self.output_shape = tuple(shape)
                self.host_output, self.device_output = host, device

    def preprocess(self, img):
        img = img.astype(np.float32) / 255.0
        img -= np.array([0.485, 0.456, 0.406], dtype=np.float32)
        img /= np.array([0.229, 0.224, 0.225], dtype=np.float32)
        return np.ascontiguousarray(img.transpose(2, 0, 1))

    def infer(self, img):
        np.copyto(self.host_input, self.preprocess(img).ravel())
        cuda.memcpy_htod_async(self.device_input, self.host_input, self.stream)
        self.context.execute_async_v2(
            bindings=[int(self.device_input), int(self.device_output)],
            stream_handle=self.stream.handle)
        cuda.memcpy_dtoh_async(self.host_output, self.device_output, self.stream)

        output_data = torch.Tensor(self.host_output).reshape(self.output_shape)
        self.stream.synchronize()
        return output_data

    def labels(self, img):
        logits = self.infer(img)
        return logits.squeeze(0).argmax(dim=0).to(torch.uint8).numpy()


def evaluate(engine, samples):
    hist = np.zeros((engine.num_classes, engine.num_classes), dtype=np.int64)
    for img, gt in samples:
        pred = engine.labels(img)
        mask = gt < engine.num_classes
        idx = engine.num_classes * gt[mask].astype(int) + pred[mask]
        hist += np.bincount(idx, minlength=hist.size).reshape(hist.shape)
    iou = np.diag(hist) / (hist.sum(1) + hist.sum(0) - np.diag(hist))
    return float(np.nanmean(iou))
