import cupy as cp
import numpy as np
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


class CupyAllocator:
    def __init__(self):
        self.buffers = {}

    def bind(self, context, engine, shapes):
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                context.set_input_shape(name, shapes[name])
            dtype = np.dtype(trt.nptype(engine.get_tensor_dtype(name)))
            self.buffers[name] = cp.empty(tuple(context.get_tensor_shape(name)), dtype=dtype)
            context.set_tensor_address(name, self.buffers[name].data.ptr)
        return self.buffers


class Detector:
    """TensorRT detector on a blocking CuPy stream; pre- and post-processing on the null stream."""

    def __init__(self, engine_path, input_name, output_name, shape, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)):
        with open(engine_path, "rb") as f, trt.Runtime(LOGGER) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        # a stream without the non-blocking flag is ordered with the null stream in both directions
        self.stream = cp.cuda.Stream(non_blocking=False)
        self.input_name, self.output_name = input_name, output_name
        self.buffers = CupyAllocator().bind(self.context, self.engine, {input_name: shape})
        self.mean = cp.asarray(mean, dtype=cp.float32).reshape(1, 3, 1, 1)
        self.std = cp.asarray(std, dtype=cp.float32).reshape(1, 3, 1, 1)

    def _preprocess(self, batch_input_image):
        images = cp.asarray(batch_input_image).transpose(0, 3, 1, 2).astype(cp.float32)
        images /= 255.0
        images -= self.mean
        images /= self.std
        cp.copyto(self.buffers[self.input_name], images)

    def _postprocess(self, threshold):
        output = self.buffers[self.output_name]
        scores = output[..., 4] * output[..., 5:].max(axis=-1)
        keep = scores > threshold
        return [cp.asnumpy(boxes[mask]) for boxes, mask in zip(output[..., :4], keep)]

    def infer(self, batch_input_image, threshold=0.25):
        self._preprocess(batch_input_image)
        if not self.context.execute_async_v3(stream_handle=self.stream.ptr):
            raise RuntimeError("TensorRT execution failed")
        return self._postprocess(threshold)


def run(detector, video, batch_size):
    batch, detections = [], []
    for frame in video:
        batch.append(frame)
        if len(batch) == batch_size:
            detections.extend(detector.infer(np.stack(batch)))
            batch.clear()
    return detections
