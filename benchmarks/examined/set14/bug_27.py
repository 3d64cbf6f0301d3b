import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


class Slot:
    """Context, stream and buffers of one stereo pair."""

    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = cuda.Stream()
        self.inputs, self.outputs = {}, {}
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            shape = tuple(engine.get_tensor_shape(name))
            dtype = trt.nptype(engine.get_tensor_dtype(name))
            host = cuda.pagelocked_empty(shape, dtype)
            device = cuda.mem_alloc(host.nbytes)
            self.context.set_tensor_address(name, int(device))
            is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs)[name] = (host, device)

    def enqueue(self, feeds):
        for name, (host, device) in self.inputs.items():
            np.copyto(host, feeds[name])
            cuda.memcpy_htod_async(device, host, self.stream)
        self.context.execute_async_v3(stream_handle=self.stream.handle)
        for host, device in self.outputs.values():
            cuda.memcpy_dtoh_async(host, device, self.stream)

    def results(self):
        return {name: host.copy() for name, (host, _) in self.outputs.items()}


class OmniDepth:
    def __init__(self, engine_path, num_pairs=4):
        with open(engine_path, "rb") as f, trt.Runtime(LOGGER) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.slots = [Slot(self.engine) for _ in range(num_pairs)]

    @staticmethod
    def _normalize(image):
        return (image.astype(np.float32) / 255.0).transpose(2, 0, 1)[None]

    def infer(self, pairs):
        for slot, (left, right) in zip(self.slots, pairs):
            slot.enqueue({"left": self._normalize(left), "right": self._normalize(right)})
        self.slots[-1].stream.synchronize()
        return [slot.results()["disparity"][0, 0] for slot in self.slots]


def to_cloud(disparity, focal, baseline, min_disparity=0.5):
    v, u = np.nonzero(disparity > min_disparity)
    depth = focal * baseline / disparity[v, u]
    h, w = disparity.shape
    return np.stack(((u - w / 2) * depth / focal, (v - h / 2) * depth / focal, depth), axis=-1)


def run(camera, engine_path, publish, focal, baseline):
    net = OmniDepth(engine_path)
    for pairs in camera:
        for index, disparity in enumerate(net.infer(pairs)):
            publish(index, to_cloud(disparity, focal, baseline))
