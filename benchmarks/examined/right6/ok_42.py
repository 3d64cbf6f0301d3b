import threading

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt


class HostDeviceMem:
    def __init__(self, shape, dtype):
        self.host = cuda.pagelocked_empty(shape, dtype)
        self.device = cuda.mem_alloc(self.host.nbytes)

    def free(self):
        self.device.free()


class Detector:
    """Shared by request threads; the context is pushed for the time of a call."""

    def __init__(self, path, device=0):
        cuda.init()
        self.ctx = cuda.Device(device).make_context()
        self.lock = threading.Lock()
        try:
            self.stream = cuda.Stream()
            with open(path, "rb") as f:
                self.engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(f.read())
            self.context = self.engine.create_execution_context()
            self.bindings = {}
            for i in range(self.engine.num_io_tensors):
                name = self.engine.get_tensor_name(i)
                shape = tuple(self.engine.get_tensor_shape(name))
                dtype = trt.nptype(self.engine.get_tensor_dtype(name))
                self.bindings[name] = HostDeviceMem(shape, dtype)
                self.context.set_tensor_address(name, int(self.bindings[name].device))
        finally:
            self.ctx.pop()

    def detect(self, image):
        with self.lock:
            self.ctx.push()
            try:
                src = self.bindings["images"]
                src.host[...] = image
                cuda.memcpy_htod_async(src.device, src.host, self.stream)
                self.context.execute_async_v3(self.stream.handle)
                for name in ("boxes", "scores"):
                    b = self.bindings[name]
                    cuda.memcpy_dtoh_async(b.host, b.device, self.stream)
                self.stream.synchronize()
                return (self.bindings["boxes"].host.copy(),
                        self.bindings["scores"].host.copy())
            finally:
                self.ctx.pop()

    def close(self):
        with self.lock:
            self.ctx.push()
            self.stream.synchronize()
            for b in self.bindings.values():
                b.free()
            del self.context, self.engine
            self.ctx.pop()
            self.ctx.detach()


def main():
    detector = Detector("yolo.plan")
    found = {}

    def work(k):
        img = np.random.default_rng(k).random((1, 3, 640, 640)).astype(np.float32)
        boxes, scores = detector.detect(img)
        found[k] = int((scores > 0.5).sum())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    detector.close()
    print(found)


if __name__ == "__main__":
    main()
