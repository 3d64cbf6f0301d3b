import queue
import threading
from concurrent.futures import Future

import numpy as np
import pycuda.driver as drv
import tensorrt as trt


class Binding:
    def __init__(self, name, shape, dtype):
        self.name = name
        self.host = drv.pagelocked_empty(shape, dtype)
        self.device = drv.mem_alloc(self.host.nbytes)


class Worker(threading.Thread):
    def __init__(self, cuda_context, engine, jobs):
        super().__init__(daemon=True)
        self.cuda_context, self.engine, self.jobs = cuda_context, engine, jobs

    def _setup(self):
        self.stream = drv.Stream()
        self.context = self.engine.create_execution_context()
        self.inputs, self.outputs = [], []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            binding = Binding(name, tuple(self.engine.get_tensor_shape(name)),
                              trt.nptype(self.engine.get_tensor_dtype(name)))
            self.context.set_tensor_address(name, int(binding.device))
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.inputs.append(binding)
            else:
                self.outputs.append(binding)

    def _infer(self, feed):
        for b in self.inputs:
            np.copyto(b.host, feed[b.name])
            drv.memcpy_htod_async(b.device, b.host, self.stream)
        if not self.context.execute_async_v3(self.stream.handle):
            self.stream.synchronize()
            raise RuntimeError("enqueue failed")
        for b in self.outputs:
            drv.memcpy_dtoh_async(b.host, b.device, self.stream)
        self.stream.synchronize()
        return {b.name: b.host.copy() for b in self.outputs}

    def run(self):
        self.cuda_context.push()
        try:
            self._setup()
            while (job := self.jobs.get()) is not None:
                feed, future = job
                try:
                    future.set_result(self._infer(feed))
                except RuntimeError as exc:
                    future.set_exception(exc)
            del self.inputs, self.outputs, self.context, self.stream
        finally:
            drv.Context.pop()


class Server:
    def __init__(self, plan, workers=2):
        drv.init()
        self.cuda_context = drv.Device(0).retain_primary_context()
        self.cuda_context.push()
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        with open(plan, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        drv.Context.pop()
        self.jobs = queue.Queue(maxsize=16)
        self.workers = [Worker(self.cuda_context, self.engine, self.jobs) for _ in range(workers)]
        for w in self.workers:
            w.start()

    def submit(self, feed):
        future = Future()
        self.jobs.put((feed, future))
        return future

    def close(self):
        for _ in self.workers:
            self.jobs.put(None)
        for w in self.workers:
            w.join()
