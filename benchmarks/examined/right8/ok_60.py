"""TensorRT: leased execution contexts, requests tracked by id."""
import itertools
from collections import deque

import numpy as np
import tensorrt as trt
import torch


class Lease:
    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.event = torch.cuda.Event()
        self.buffers = {}
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            shape = tuple(engine.get_tensor_shape(name))
            dev = torch.empty(shape, device="cuda")
            self.buffers[name] = (dev, torch.empty(shape, pin_memory=True))
            self.context.set_tensor_address(name, dev.data_ptr())
        torch.cuda.synchronize()


class Server:
    def __init__(self, engine, inp, out, contexts=2):
        self.inp, self.out = inp, out
        self.idle = deque(Lease(engine) for _ in range(contexts))
        self.active = {}
        self.ids = itertools.count()

    def submit(self, array):
        if not self.idle:
            raise BlockingIOError("all contexts are leased")
        lease = self.idle.popleft()
        dev, host = lease.buffers[self.inp]
        host.copy_(torch.from_numpy(array))
        with torch.cuda.stream(lease.stream):
            dev.copy_(host, non_blocking=True)
            lease.context.execute_async_v3(lease.stream.cuda_stream)
            d_out, h_out = lease.buffers[self.out]
            h_out.copy_(d_out, non_blocking=True)
            lease.event.record()
        rid = next(self.ids)
        self.active[rid] = lease
        return rid

    def result(self, rid):
        lease = self.active.pop(rid)
        lease.event.synchronize()
        try:
            return lease.buffers[self.out][1].numpy().copy()
        finally:
            self.idle.append(lease)


def serve(engine, images):
    server = Server(engine, "input", "logits")
    waiting = deque()
    for image in images:
        if not server.idle:
            yield server.result(waiting.popleft())
        waiting.append(server.submit(image))
    while waiting:
        yield server.result(waiting.popleft())


if __name__ == "__main__":
    rt = trt.Runtime(trt.Logger())
    eng = rt.deserialize_cuda_engine(open("cls.plan", "rb").read())
    imgs = (np.random.rand(1, 3, 224, 224).astype(np.float32) for _ in range(7))
    print([int(r.argmax()) for r in serve(eng, imgs)])
