"""Run two TensorRT engines side by side."""
import cupy as cp
import numpy as np
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


def load(path):
    with open(path, "rb") as f:
        return trt.Runtime(LOGGER).deserialize_cuda_engine(f.read())


class Lane:
    def __init__(self, engine):
        self.engine = engine
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.context = engine.create_execution_context_without_device_memory()
        with self.stream:
            self.scratch = cp.empty(engine.device_memory_size, cp.uint8)
            self.io = {}
            for i in range(engine.num_io_tensors):
                name = engine.get_tensor_name(i)
                dtype = trt.nptype(engine.get_tensor_dtype(name))
                self.io[name] = cp.empty(tuple(engine.get_tensor_shape(name)), dtype)
                self.context.set_tensor_address(name, self.io[name].data.ptr)
        self.context.device_memory = self.scratch.data.ptr

    def start(self, **inputs):
        with self.stream:
            for name, value in inputs.items():
                self.io[name][...] = cp.asarray(value)
        self.context.execute_async_v3(self.stream.ptr)

    def fetch(self, name):
        with self.stream:
            return cp.asnumpy(self.io[name])


class Fusion:
    def __init__(self, camera_plan, lidar_plan):
        self.camera = Lane(load(camera_plan))
        self.lidar = Lane(load(lidar_plan))

    def __call__(self, image, cloud):
        self.camera.start(image=image)
        self.lidar.start(points=cloud)
        return self.camera.fetch("heatmap"), self.lidar.fetch("boxes")


def main():
    net = Fusion("camera.plan", "lidar.plan")
    log = np.load("drive.npz")
    for image, cloud in zip(log["images"], log["clouds"]):
        heat, boxes = net(image, cloud)
        print(heat.max(), len(boxes))


if __name__ == "__main__":
    main()
