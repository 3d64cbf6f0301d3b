"""Throughput benchmark: one TensorRT engine, several streams with their own bindings."""
import time

import cupy as cp
import cupyx
import numpy as np
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


class Bindings:
    """Device and page-locked host arrays for all tensors of the engine."""

    def __init__(self, engine):
        self.device, self.host = {}, {}
        self.inputs, self.outputs = [], []
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            shape = tuple(engine.get_tensor_shape(name))
            dtype = trt.nptype(engine.get_tensor_dtype(name))
            self.device[name] = cp.zeros(shape, dtype=dtype)
            self.host[name] = cupyx.zeros_pinned(shape, dtype=dtype)
            if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.inputs.append(name)
            else:
                self.outputs.append(name)

    def attach(self, context):
        for name, array in self.device.items():
            context.set_tensor_address(name, array.data.ptr)


class Iteration:
    def __init__(self, engine, context):
        self.context = context
        self.bindings = Bindings(engine)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.done = cp.cuda.Event(disable_timing=True)
        self.active = False

    def query(self):
        b, stream = self.bindings, self.stream
        for name in b.inputs:
            b.device[name].set(b.host[name], stream=stream)
        b.attach(self.context)
        if not self.context.execute_async_v3(stream.ptr):
            raise RuntimeError("enqueue failed")
        for name in b.outputs:
            b.device[name].get(stream=stream, out=b.host[name], blocking=False)
        self.done.record(stream)
        self.active = True

    def sync(self):
        if not self.active:
            return None
        self.done.synchronize()
        self.active = False
        return {name: self.bindings.host[name] for name in self.bindings.outputs}


class InferenceLoop:
    def __init__(self, plan, num_streams):
        with open(plan, "rb") as f:
            self.runtime = trt.Runtime(LOGGER)
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        context = self.engine.create_execution_context()
        self.iterations = [Iteration(self.engine, context) for _ in range(num_streams)]
        cp.cuda.Device().synchronize()

    def fill(self, iteration, rng):
        for name in iteration.bindings.inputs:
            host = iteration.bindings.host[name]
            host[...] = rng.random(host.shape)

    def run(self, count, seed=0):
        rng = np.random.default_rng(seed)
        checksum = 0.0
        start = time.perf_counter()
        for k in range(count + len(self.iterations)):
            iteration = self.iterations[k % len(self.iterations)]
            outputs = iteration.sync()
            if outputs is not None:
                checksum += sum(float(value.sum()) for value in outputs.values())
            if k < count:
                self.fill(iteration, rng)
                iteration.query()
        elapsed = time.perf_counter() - start
        return count / elapsed, checksum


def main():
    loop = InferenceLoop("model.plan", num_streams=4)
    rate, checksum = loop.run(1000)
    print(f"{rate:.1f} qps, checksum {checksum:.6f}")


if __name__ == "__main__":
    main()
