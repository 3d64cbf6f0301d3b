"""TensorRT backend instance: one thread issues payloads, another one answers them."""
import concurrent.futures
import ctypes
import queue
import threading

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

EVENT_SET_COUNT = 3
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def nonblocking_stream():
    return check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))


def event():
    return check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


def pinned(shape):
    n = int(np.prod(shape))
    ptr = check(cudart.cudaMallocHost(n * 4))
    return np.ctypeslib.as_array((ctypes.c_float * n).from_address(ptr)).reshape(shape)


class EventSet:
    def __init__(self, in_shape, out_shape):
        self.h_in, self.h_out = pinned(in_shape), pinned(out_shape)
        self.d_in = check(cudart.cudaMalloc(self.h_in.nbytes))
        self.d_out = check(cudart.cudaMalloc(self.h_out.nbytes))
        self.ready_for_input = event()
        self.input_ready = event()
        self.output_ready = event()
        self.future = None


class ModelInstance:
    def __init__(self, plan):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        in_shape = tuple(self.engine.get_tensor_shape("input"))
        out_shape = tuple(self.engine.get_tensor_shape("output"))
        self.input_stream, self.exec_stream, self.output_stream = (nonblocking_stream() for _ in range(3))
        self.free_sets = queue.Queue()
        for _ in range(EVENT_SET_COUNT):
            self.free_sets.put(EventSet(in_shape, out_shape))
        self.payloads, self.completion = queue.Queue(), queue.Queue()
        self.threads = [threading.Thread(target=self._issue), threading.Thread(target=self._respond)]
        for t in self.threads:
            t.start()

    def infer(self, array):
        future = concurrent.futures.Future()
        self.payloads.put((array, future))
        return future

    def _issue(self):
        while True:
            item = self.payloads.get()
            if item is None:
                self.completion.put(None)
                return
            es = self.free_sets.get()
            array, es.future = item
            np.copyto(es.h_in, array)
            check(cudart.cudaMemcpyAsync(es.d_in, es.h_in.ctypes.data, es.h_in.nbytes, H2D, self.input_stream))
            check(cudart.cudaEventRecord(es.input_ready, self.input_stream))

            check(cudart.cudaStreamWaitEvent(self.exec_stream, es.input_ready, 0))
            self.context.set_tensor_address("input", int(es.d_in))
            self.context.set_tensor_address("output", int(es.d_out))
            self.context.execute_async_v3(int(self.exec_stream))
            check(cudart.cudaEventRecord(es.ready_for_input, self.exec_stream))

            check(cudart.cudaStreamWaitEvent(self.output_stream, es.ready_for_input, 0))
            check(cudart.cudaMemcpyAsync(es.h_out.ctypes.data, es.d_out, es.h_out.nbytes, D2H, self.output_stream))
            check(cudart.cudaEventRecord(es.output_ready, self.output_stream))
            self.completion.put(es)

    def _respond(self):
        while True:
            es = self.completion.get()
            if es is None:
                return
            check(cudart.cudaEventSynchronize(es.output_ready))
            es.future.set_result(es.h_out.copy())
            self.free_sets.put(es)

    def finalize(self):
        self.payloads.put(None)
        for t in self.threads:
            t.join()


if __name__ == "__main__":
    instance = ModelInstance("resnet50.plan")
    shape = tuple(instance.engine.get_tensor_shape("input"))
    gen = np.random.default_rng(0)
    futures = [instance.infer(gen.random(shape, dtype=np.float32)) for _ in range(64)]
    print(sum(float(f.result().argmax()) for f in futures))
    instance.finalize()
