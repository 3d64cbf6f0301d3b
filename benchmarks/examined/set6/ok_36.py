import cv2
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt


class HostDeviceMem:
    def __init__(self, host_mem, device_mem):
        self.host = host_mem
        self.device = device_mem

    def __repr__(self):
        return "Host:\n" + str(self.host) + "\nDevice:\n" + str(self.device)


def allocate_buffers(engine):
    inputs, outputs, bindings = [], [], []
    stream = cuda.Stream()
    for binding in engine:
        dims = engine.get_binding_shape(binding)
        size = trt.volume(dims)
        dtype = trt.nptype(engine.get_binding_dtype(binding))
        host_mem = cuda.pagelocked_empty(size, dtype)
        device_mem = cuda.mem_alloc(host_mem.nbytes)
        bindings.append(int(device_mem))
        if engine.binding_is_input(binding):
            inputs.append(HostDeviceMem(host_mem, device_mem))
        else:
            outputs.append(HostDeviceMem(host_mem, device_mem))
    return inputs, outputs, bindings, stream


def do_inference_v2(context, bindings, inputs, outputs, stream):
    for inp in inputs:
        cuda.memcpy_htod_async(inp.device, inp.host, stream)
    context.execute_async_v2(bindings=bindings, stream_handle=stream.handle)
    for out in outputs:
        cuda.memcpy_dtoh_async(out.host, out.device, stream)
    stream.synchronize()
    return [out.host for out in outputs]


def preprocess_yolo(img, input_shape):
    img = cv2.resize(img, (input_shape[1], input_shape[0]))
    img = cv2.cvtColor(img, cv2.COLOR_BGR2RGB)
    return img.transpose((2, 0, 1)).astype(np.float32) / 255.0


class TrtYOLO:
    def __init__(self, engine_path, input_shape):
        self.input_shape = input_shape
        self.trt_logger = trt.Logger(trt.Logger.INFO)
        with open(engine_path, "rb") as f, trt.Runtime(self.trt_logger) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.inputs, self.outputs, self.bindings, self.stream = allocate_buffers(self.engine)

    def detect(self, img, conf_th=0.3):
        np.copyto(self.inputs[0].host, preprocess_yolo(img, self.input_shape).ravel())
        trt_outputs = do_inference_v2(
            self.context, self.bindings, self.inputs, self.outputs, self.stream
        )
        detections = np.concatenate([o.reshape(-1, 7) for o in trt_outputs], axis=0)
        scores = detections[:, 4] * detections[:, 6]
        return detections[scores >= conf_th]


def loop_and_detect(cam, trt_yolo, conf_th):
    while True:
        img = cam.read()
        if img is None:
            return
        yield trt_yolo.detect(img, conf_th)
