"""Several TensorRT engines on one device share a single activation scratch buffer."""
import threading
from concurrent.futures import ThreadPoolExecutor

import tensorrt as trt
import torch


class SharedScratchPool:
    """One buffer per device, shared by the execution contexts of all engines."""

    def __init__(self, device):
        self.device = device
        self.lock = threading.Lock()
        self.buffer = None
        self.last_use = None

    def reserve(self, nbytes):
        with self.lock:
            if self.buffer is None or self.buffer.numel() < nbytes:
                self.buffer = torch.empty(nbytes, dtype=torch.uint8, device=self.device)
                torch.cuda.synchronize(self.device)

    def claim(self, stream):
        with self.lock:
            if self.last_use is not None:
                stream.wait_event(self.last_use)
            return self.buffer.data_ptr(), self.buffer.numel()

    def release(self, stream):
        event = torch.cuda.Event()
        event.record(stream)
        with self.lock:
            self.last_use = event


class PooledEngine:
    def __init__(self, path, pool, device):
        logger = trt.Logger(trt.Logger.ERROR)
        with open(path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context(
            trt.ExecutionContextAllocationStrategy.USER_MANAGED
        )
        self.pool = pool
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.mutex = threading.Lock()
        pool.reserve(self.engine.device_memory_size_v2)
        self.outputs = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
                shape = tuple(self.engine.get_tensor_shape(name))
                self.outputs[name] = torch.empty(shape, device=device)

    def execute(self, inputs):
        """inputs: dict of host tensors in pinned memory; returns host tensors."""
        with self.mutex, torch.cuda.stream(self.stream):
            bound = {k: v.to(self.device, non_blocking=True) for k, v in inputs.items()}
            for name, tensor in {**bound, **self.outputs}.items():
                self.context.set_tensor_address(name, tensor.data_ptr())
            ptr, size = self.pool.claim(self.stream)
            self.context.set_device_memory(ptr, size)
            self.context.execute_async_v3(self.stream.cuda_stream)
            self.pool.release(self.stream)
            host = {k: v.to("cpu", non_blocking=True) for k, v in self.outputs.items()}
            self.stream.synchronize()
        return host


class MultiModelServer:
    """Each model has a worker; requests of different models run at the same time."""

    def __init__(self, engine_paths, device_index=0):
        device = torch.device("cuda", device_index)
        torch.cuda.set_device(device)
        self.pool = SharedScratchPool(device)
        self.engines = {name: PooledEngine(path, self.pool, device) for name, path in engine_paths.items()}
        torch.cuda.synchronize(device)
        self.workers = ThreadPoolExecutor(max_workers=len(self.engines))

    def submit(self, name, inputs):
        pinned = {k: v.pin_memory() for k, v in inputs.items()}
        return self.workers.submit(self.engines[name].execute, pinned)

    def infer_all(self, requests):
        futures = [(name, self.submit(name, inputs)) for name, inputs in requests]
        return [(name, f.result()) for name, f in futures]
