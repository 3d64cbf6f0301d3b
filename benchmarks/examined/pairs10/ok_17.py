"""Thread pool around a TensorRT engine; each worker has a context of its own."""
import queue
import threading

import numpy as np
import pycuda.driver as drv
import tensorrt as trt


class Worker(threading.Thread):
    def __init__(self, engine, device_context, jobs, results, length):
        super().__init__(daemon=True)
        self.engine, self.device_context = engine, device_context
        self.jobs, self.results, self.length = jobs, results, length

    def _setup(self):
        self.context = self.engine.create_execution_context()
        self.stream = drv.Stream()
        self.host_in = drv.pagelocked_empty(self.length, np.float32)
        self.host_out = drv.pagelocked_empty(self.length, np.float32)
        self.dev_in = drv.mem_alloc(self.host_in.nbytes)
        self.dev_out = drv.mem_alloc(self.host_out.nbytes)
        self.context.set_tensor_address("x", int(self.dev_in))
        self.context.set_tensor_address("y", int(self.dev_out))

    def _infer(self, sample):
        self.host_in[:] = sample
        drv.memcpy_htod_async(self.dev_in, self.host_in, self.stream)
        self.context.execute_async_v3(self.stream.handle)
        drv.memcpy_dtoh_async(self.host_out, self.dev_out, self.stream)
        self.stream.synchronize()
        return self.host_out.copy()

    def run(self):
        self.device_context.push()
        try:
            self._setup()
            while (job := self.jobs.get()) is not None:
                key, sample = job
                self.results.put((key, self._infer(sample)))
        finally:
            self.device_context.pop()


def main(path="denoiser.plan", workers=3, length=1 << 18, count=60):
    drv.init()
    device_context = drv.Device(0).retain_primary_context()
    device_context.push()
    logger = trt.Logger(trt.Logger.WARNING)
    with open(path, "rb") as handle:
        engine = trt.Runtime(logger).deserialize_cuda_engine(handle.read())
    jobs, results = queue.Queue(), queue.Queue()
    pool = [Worker(engine, device_context, jobs, results, length) for _ in range(workers)]
    for worker in pool:
        worker.start()
    rng = np.random.default_rng(0)
    for key in range(count):
        jobs.put((key, rng.standard_normal(length, dtype=np.float32)))
    for _ in pool:
        jobs.put(None)
    energies = dict((key, float((y * y).mean())) for key, y in (results.get() for _ in range(count)))
    for worker in pool:
        worker.join()
    device_context.pop()
    print(energies)


if __name__ == "__main__":
    main()
