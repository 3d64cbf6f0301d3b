import contextlib
import queue
from concurrent.futures import ThreadPoolExecutor

import tensorrt as trt
import torch


class ContextLease:
    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.device, self.host = {}, {}
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            shape = tuple(engine.get_tensor_shape(name))
            self.device[name] = torch.empty(shape, dtype=torch.float32, device="cuda")
            self.host[name] = torch.empty(shape, dtype=torch.float32, pin_memory=True)
            self.context.set_tensor_address(name, self.device[name].data_ptr())
        self.stream.wait_stream(torch.cuda.current_stream())


class EnginePool:
    def __init__(self, plan, size):
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        with open(plan, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        mode = self.engine.get_tensor_mode
        self.inputs = [n for n in names if mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if mode(n) == trt.TensorIOMode.OUTPUT]
        self.idle = queue.LifoQueue()
        for _ in range(size):
            self.idle.put(ContextLease(self.engine))

    @contextlib.contextmanager
    def lease(self):
        item = self.idle.get()
        try:
            yield item
        finally:
            item.stream.synchronize()
            self.idle.put(item)

    def infer(self, feed):
        with self.lease() as item:
            for name in self.inputs:
                item.host[name].copy_(torch.from_numpy(feed[name]))
            with torch.cuda.stream(item.stream):
                for name in self.inputs:
                    item.device[name].copy_(item.host[name], non_blocking=True)
                item.context.execute_async_v3(item.stream.cuda_stream)
                for name in self.outputs:
                    item.host[name].copy_(item.device[name], non_blocking=True)
            item.stream.synchronize()
            return {n: item.host[n].numpy().copy() for n in self.outputs}


def serve(plan, requests):
    pool = EnginePool(plan, 4)
    with ThreadPoolExecutor(8) as workers:
        return list(workers.map(pool.infer, requests))
