"""TensorRT instance with separate input-copy, execution and output-copy streams."""
import numpy as np
import tensorrt as trt
import torch

_TORCH = {trt.DataType.FLOAT: torch.float32, trt.DataType.HALF: torch.float16, trt.DataType.INT32: torch.int32}


class BufferSet:
    def __init__(self, engine, names, shapes):
        self.device, self.host = {}, {}
        for name in names:
            dtype = _TORCH[engine.get_tensor_dtype(name)]
            self.device[name] = torch.empty(shapes[name], dtype=dtype, device="cuda")
            self.host[name] = torch.empty(shapes[name], dtype=dtype, pin_memory=True)
        self.input_ready = torch.cuda.Event()
        self.executed = torch.cuda.Event()
        self.output_copied = torch.cuda.Event()


class PlanInstance:
    def __init__(self, plan_path, shapes):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(plan_path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        self.inputs = [n for n in names if self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if n not in self.inputs]
        self.sets = [BufferSet(self.engine, names, shapes) for _ in range(2)]
        for name in self.inputs:
            self.context.set_input_shape(name, shapes[name])
        self.input_copy_stream = torch.cuda.Stream()
        self.exec_stream = torch.cuda.Stream()
        self.output_copy_stream = torch.cuda.Stream()
        self.next_set = 0
        self.pending = [None, None]

    def enqueue(self, request_id, payload):
        """Issue one request; returns the previous occupant of the buffer set, if any."""
        idx = self.next_set
        self.next_set ^= 1
        finished = self._finalize(idx)
        bufs = self.sets[idx]
        bufs.input_ready.synchronize()
        for name in self.inputs:
            np.copyto(bufs.host[name].numpy(), payload[name])
        with torch.cuda.stream(self.input_copy_stream):
            self.input_copy_stream.wait_event(bufs.executed)
            for name in self.inputs:
                bufs.device[name].copy_(bufs.host[name], non_blocking=True)
            bufs.input_ready.record()
        self.exec_stream.wait_event(bufs.input_ready)
        self.exec_stream.wait_event(bufs.output_copied)
        for name, tensor in bufs.device.items():
            self.context.set_tensor_address(name, tensor.data_ptr())
        self.context.execute_async_v3(self.exec_stream.cuda_stream)
        bufs.executed.record(self.exec_stream)
        with torch.cuda.stream(self.output_copy_stream):
            self.output_copy_stream.wait_event(bufs.executed)
            for name in self.outputs:
                bufs.host[name].copy_(bufs.device[name], non_blocking=True)
            bufs.output_copied.record()
        self.pending[idx] = request_id
        return finished

    def _finalize(self, idx):
        request_id, self.pending[idx] = self.pending[idx], None
        if request_id is None:
            return None
        bufs = self.sets[idx]
        bufs.output_copied.synchronize()
        return request_id, {n: bufs.host[n].numpy().copy() for n in self.outputs}

    def flush(self):
        results = []
        for _ in range(2):
            done = self._finalize(self.next_set)
            self.next_set ^= 1
            if done is not None:
                results.append(done)
        return results


def serve(plan_path, shapes, requests):
    instance = PlanInstance(plan_path, shapes)
    responses = {}
    for request_id, payload in enumerate(requests):
        done = instance.enqueue(request_id, payload)
        if done is not None:
            responses[done[0]] = done[1]
    responses.update(dict(instance.flush()))
    return responses
