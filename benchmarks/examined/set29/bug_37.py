"""Detector that is fed by a DALI pipeline: decoded and resized batches are
copied from DALI's output into the TensorRT input binding."""
import ctypes

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt
from nvidia.dali import fn, pipeline_def, types


@pipeline_def(batch_size=8, num_threads=4, device_id=0)
def image_pipeline(root):
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=False)
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, resize_x=640, resize_y=640)
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW",
        mean=[0.0, 0.0, 0.0], std=[255.0, 255.0, 255.0])
    return images, labels


class HostDeviceMem:
    def __init__(self, shape, dtype):
        self.host = cuda.pagelocked_empty(shape, dtype)
        self.device = cuda.mem_alloc(self.host.nbytes)


class TrtDetector:
    def __init__(self, plan_path):
        with open(plan_path, "rb") as f:
            self.engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.input = HostDeviceMem(tuple(self.engine.get_tensor_shape("images")), np.float32)
        self.output = HostDeviceMem(tuple(self.engine.get_tensor_shape("dets")), np.float32)
        self.context.set_tensor_address("images", int(self.input.device))
        self.context.set_tensor_address("dets", int(self.output.device))

    def bind_dali(self, batch, copy_stream):
        tensor = batch.as_tensor()
        tensor.copy_to_external(
            ctypes.c_void_p(int(self.input.device)),
            cuda_stream=ctypes.c_void_p(copy_stream.handle),
            non_blocking=True)
        return tensor

    def infer(self):
        self.context.execute_async_v3(self.stream.handle)
        cuda.memcpy_dtoh_async(self.output.host, self.output.device, self.stream)
        self.stream.synchronize()
        return self.output.host.copy()


def main(root="images", plan="yolo.plan", n_batches=50):
    pipe = image_pipeline(root)
    pipe.build()
    detector = TrtDetector(plan)
    copy_stream = cuda.Stream()
    results = []
    for _ in range(n_batches):
        images, labels = pipe.run()
        keep = detector.bind_dali(images, copy_stream)
        results.append((np.asarray(labels.as_array()), detector.infer()))
        copy_stream.synchronize()
        del keep
    print(len(results), results[0][1].shape)


if __name__ == "__main__":
    main()
