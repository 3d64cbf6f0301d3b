"""Detector engine with two execution contexts; the next image is queued before the last is read."""
from collections import deque

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt


class Lane:
    """Context, stream and buffers that one request occupies."""

    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = cuda.Stream()
        self.finished = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        self.inputs, self.outputs = {}, {}
        for index in range(engine.num_io_tensors):
            name = engine.get_tensor_name(index)
            shape = tuple(engine.get_tensor_shape(name))
            dtype = trt.nptype(engine.get_tensor_dtype(name))
            host = cuda.pagelocked_empty(shape, dtype)
            device = cuda.mem_alloc(host.nbytes)
            self.context.set_tensor_address(name, int(device))
            is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs)[name] = (host, device)
        self.occupied = False

    def launch(self, feeds):
        if self.occupied:
            raise RuntimeError("the lane holds an answer that was not fetched")
        for name, (host, device) in self.inputs.items():
            np.copyto(host, feeds[name])
            cuda.memcpy_htod_async(device, host, self.stream)
        if not self.context.execute_async_v3(self.stream.handle):
            raise RuntimeError("enqueue failed")
        for host, device in self.outputs.values():
            cuda.memcpy_dtoh_async(host, device, self.stream)
        self.finished.record(self.stream)
        self.occupied = True

    def fetch(self):
        self.finished.synchronize()
        self.occupied = False
        return {name: host.copy() for name, (host, _) in self.outputs.items()}


class Detector:
    def __init__(self, plan_path, lanes=2):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(plan_path, "rb") as file:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(file.read())
        self.idle = deque(Lane(self.engine) for _ in range(lanes))
        self.running = deque()

    def submit(self, **feeds):
        """Queues a request; returns the oldest answer if every lane was taken."""
        answer = self.next_answer() if not self.idle else None
        lane = self.idle.popleft()
        lane.launch(feeds)
        self.running.append(lane)
        return answer

    def next_answer(self):
        if not self.running:
            return None
        lane = self.running.popleft()
        answer = lane.fetch()
        self.idle.append(lane)
        return answer

    def close(self):
        while self.running:
            yield self.next_answer()


def letterbox(image, size):
    canvas = np.full((size, size, 3), 114, dtype=np.uint8)
    height, width = (min(size, n) for n in image.shape[:2])
    canvas[:height, :width] = image[:height, :width]
    return np.ascontiguousarray(canvas.transpose(2, 0, 1)[None], dtype=np.float32) / 255


def detect(plan_path, images, size=640):
    context = cuda.Device(0).make_context()
    try:
        detector = Detector(plan_path)
        answers = []
        for image in images:
            answer = detector.submit(images=letterbox(image, size))
            if answer is not None:
                answers.append(answer)
        answers.extend(detector.close())
        del detector
        return answers
    finally:
        context.pop()


if __name__ == "__main__":
    cuda.init()
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 255, (480, 640, 3), dtype=np.uint8) for _ in range(8)]
    print(len(detect("detector.plan", frames)))
