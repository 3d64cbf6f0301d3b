import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt


class HostDeviceMem:
    def __init__(self, name, shape, dtype):
        self.name = name
        self.host = cuda.pagelocked_empty(int(np.prod(shape)), dtype)
        self.shape = tuple(shape)
        self.device = cuda.mem_alloc(self.host.nbytes)


class TrtYolo:
    def __init__(self, engine_path, conf_thresh=0.3, nms_thresh=0.45):
        self.conf_thresh, self.nms_thresh = conf_thresh, nms_thresh
        logger = trt.Logger(trt.Logger.WARNING)
        with open(engine_path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.inputs, self.outputs = [], []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            mem = HostDeviceMem(name, self.engine.get_tensor_shape(name), trt.nptype(self.engine.get_tensor_dtype(name)))
            self.context.set_tensor_address(name, int(mem.device))
            is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs).append(mem)

    def _do_inference(self):
        for mem in self.inputs:
            cuda.memcpy_htod_async(mem.device, mem.host, self.stream)
        self.context.execute_async_v3(self.stream.handle)
        for mem in self.outputs:
            cuda.memcpy_dtoh_async(mem.host, mem.device, self.stream)
        self.stream.synchronize()
        return [mem.host.reshape(mem.shape) for mem in self.outputs]

    def detect(self, img):
        blob = np.ascontiguousarray(img[:, :, ::-1].transpose(2, 0, 1), dtype=np.float32) / 255.0
        self.inputs[0].host[:] = blob.ravel()
        dets = self._do_inference()[0].reshape(-1, 7)
        scores = dets[:, 4] * dets[:, 6]
        keep = scores >= self.conf_thresh
        return self._nms(dets[keep, :4].copy(), scores[keep])

    def _nms(self, boxes, scores):
        order, kept = scores.argsort()[::-1], []
        x1, y1 = boxes[:, 0], boxes[:, 1]
        x2, y2 = x1 + boxes[:, 2], y1 + boxes[:, 3]
        areas = boxes[:, 2] * boxes[:, 3]
        while order.size:
            i, rest = order[0], order[1:]
            kept.append(i)
            w = np.maximum(0.0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]))
            h = np.maximum(0.0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]))
            iou = w * h / (areas[i] + areas[rest] - w * h + 1e-9)
            order = rest[iou <= self.nms_thresh]
        return boxes[kept], scores[kept]


def loop(cam, trt_yolo, show):
    while True:
        img = cam.read()
        if img is None:
            break
        show(img, trt_yolo.detect(img))
