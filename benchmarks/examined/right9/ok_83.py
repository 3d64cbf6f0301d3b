import ctypes

import numpy as np
import tensorrt as trt
from cuda import cudart


def must(result):
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else None


def pinned(shape, dtype):
    nbytes = trt.volume(shape) * np.dtype(dtype).itemsize
    ptr = must(cudart.cudaMallocHost(nbytes))
    raw = (ctypes.c_byte * nbytes).from_address(int(ptr))
    return int(ptr), np.frombuffer(raw, dtype).reshape(shape)


class Feeder:
    """Refills the engine's input while the rest of the network still runs."""

    def __init__(self, path):
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        with open(path, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        self.inp = next(n for n in names if self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT)
        self.out = next(n for n in names if n != self.inp)
        in_shape, out_shape = (tuple(self.engine.get_tensor_shape(n)) for n in (self.inp, self.out))
        self.h_in_ptr, self.h_in = pinned(in_shape, np.float32)
        self.h_out_ptr, self.h_out = pinned(out_shape, np.float32)
        self.d_in = must(cudart.cudaMalloc(self.h_in.nbytes))
        self.d_out = must(cudart.cudaMalloc(self.h_out.nbytes))
        self.context.set_tensor_address(self.inp, self.d_in)
        self.context.set_tensor_address(self.out, self.d_out)
        self.copy = must(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.exec = must(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.uploaded = must(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.consumed = must(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.context.set_input_consumed_event(int(self.consumed))

    def _upload(self, frame):
        must(cudart.cudaEventSynchronize(self.uploaded))
        self.h_in[...] = frame
        must(cudart.cudaStreamWaitEvent(self.copy, self.consumed, 0))
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        must(cudart.cudaMemcpyAsync(self.d_in, self.h_in_ptr, self.h_in.nbytes, kind, self.copy))
        must(cudart.cudaEventRecord(self.uploaded, self.copy))

    def _launch(self):
        must(cudart.cudaStreamWaitEvent(self.exec, self.uploaded, 0))
        if not self.context.execute_async_v3(int(self.exec)):
            raise RuntimeError("enqueue failed")
        kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        must(cudart.cudaMemcpyAsync(self.h_out_ptr, self.d_out, self.h_out.nbytes, kind, self.exec))

    def stream(self, frames):
        frames = iter(frames)
        first = next(frames, None)
        if first is None:
            return
        self._upload(first)
        while True:
            self._launch()
            upcoming = next(frames, None)
            if upcoming is not None:
                self._upload(upcoming)
            must(cudart.cudaStreamSynchronize(self.exec))
            yield self.h_out.copy()
            if upcoming is None:
                return


def main():
    feeder = Feeder("depth.engine")
    rng = np.random.default_rng(0)
    frames = (rng.random(feeder.h_in.shape, dtype=np.float32) for _ in range(30))
    for out in feeder.stream(frames):
        print(out.mean())


if __name__ == "__main__":
    main()
