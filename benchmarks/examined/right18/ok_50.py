"""TensorRT engine fed from pinned memory with an input-consumed event."""
import numpy as np
import tensorrt as trt
import torch

_TORCH = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT8: torch.int8,
    trt.DataType.BOOL: torch.bool,
}


class EngineRunner:
    def __init__(self, engine, device="cuda:0"):
        self.device = torch.device(device)
        self.context = engine.create_execution_context()
        self.copy = torch.cuda.Stream(self.device)
        self.infer = torch.cuda.Stream(self.device)
        self.consumed = torch.cuda.Event()
        self.uploaded = torch.cuda.Event()
        self.finished = torch.cuda.Event()
        self.inputs, self.outputs, self.pinned = {}, {}, {}
        with torch.cuda.stream(self.infer):
            for index in range(engine.num_io_tensors):
                name = engine.get_tensor_name(index)
                shape = tuple(engine.get_tensor_shape(name))
                dtype = _TORCH[engine.get_tensor_dtype(name)]
                buf = torch.zeros(shape, dtype=dtype, device=self.device)
                self.context.set_tensor_address(name, buf.data_ptr())
                host = torch.empty(shape, dtype=dtype, pin_memory=True)
                self.pinned[name] = host
                if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                    self.inputs[name] = buf
                    buf.record_stream(self.copy)
                else:
                    self.outputs[name] = buf
            self.consumed.record(self.infer)
        self.context.set_input_consumed_event(self.consumed.cuda_event)
        self.pending = False

    def submit(self, arrays):
        if self.pending:
            raise RuntimeError("collect the previous result first")
        self.uploaded.synchronize()
        for name in self.inputs:
            self.pinned[name].copy_(torch.from_numpy(np.asarray(arrays[name])))
        with torch.cuda.stream(self.copy):
            self.copy.wait_event(self.consumed)
            for name, buf in self.inputs.items():
                buf.copy_(self.pinned[name], non_blocking=True)
            self.uploaded.record(self.copy)
        with torch.cuda.stream(self.infer):
            self.infer.wait_event(self.uploaded)
            if not self.context.execute_async_v3(self.infer.cuda_stream):
                self.infer.synchronize()
                raise RuntimeError("enqueue failed")
            for name, buf in self.outputs.items():
                self.pinned[name].copy_(buf, non_blocking=True)
            self.finished.record(self.infer)
        self.pending = True

    def collect(self):
        if not self.pending:
            raise RuntimeError("nothing submitted")
        self.finished.synchronize()
        self.pending = False
        return {name: self.pinned[name].numpy().copy() for name in self.outputs}

    def close(self):
        self.copy.synchronize()
        self.infer.synchronize()


def run_all(plan, batches):
    runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
    runner = EngineRunner(runtime.deserialize_cuda_engine(plan))
    results = []
    try:
        for arrays in batches:
            runner.submit(arrays)
            results.append(runner.collect())
    finally:
        runner.close()
    return results
