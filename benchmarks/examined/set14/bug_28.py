import queue
import threading
from collections import OrderedDict

import numpy as np
import tensorrt as trt
import torch

DTYPES = {trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32}


_CAPTURE_LOCK = threading.Lock()


class CapturedShape:
    def __init__(self, context, graph, inputs, outputs):
        self.context = context
        self.graph = graph
        self.inputs = inputs
        self.outputs = outputs


class TRTModel:
    def __init__(self, engine, device="cuda:0", cache_size=16):
        self.engine = engine
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.cache = OrderedDict()
        self.cache_size = cache_size
        self.lock = threading.Lock()
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        self.input_name = next(n for n in names if engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT)
        self.output_names = [n for n in names if n != self.input_name]

    def _bind(self, context, shape):
        context.set_input_shape(self.input_name, shape)
        static = torch.zeros(shape, dtype=DTYPES[self.engine.get_tensor_dtype(self.input_name)], device=self.device)
        context.set_tensor_address(self.input_name, static.data_ptr())
        outputs = {}
        for name in self.output_names:
            out = torch.empty(
                tuple(context.get_tensor_shape(name)),
                dtype=DTYPES[self.engine.get_tensor_dtype(name)],
                device=self.device,
            )
            context.set_tensor_address(name, out.data_ptr())
            outputs[name] = out
        return static, outputs

    def _capture_cuda_graph(self, shape):
        context = self.engine.create_execution_context()
        with _CAPTURE_LOCK:
            with torch.cuda.stream(self.stream):
                static, outputs = self._bind(context, shape)
                context.execute_async_v3(self.stream.cuda_stream)
            self.stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                context.execute_async_v3(self.stream.cuda_stream)
        return CapturedShape(context, graph, static, outputs)

    def infer(self, batch):
        with self.lock:
            shape = tuple(batch.shape)
            entry = self.cache.get(shape)
            if entry is None:
                entry = self.cache[shape] = self._capture_cuda_graph(shape)
                if len(self.cache) > self.cache_size:
                    self.cache.popitem(last=False)
            with torch.cuda.stream(self.stream):
                entry.inputs.copy_(torch.from_numpy(batch))
                entry.graph.replay()
                results = {name: out.cpu() for name, out in entry.outputs.items()}
        return results


class PipelineThread(threading.Thread):
    """One video pipeline; several of them share the process."""

    def __init__(self, model, preprocess, sink):
        super().__init__(daemon=True)
        self.model = model
        self.preprocess = preprocess
        self.sink = sink
        self.frames = queue.Queue(8)

    def run(self):
        while True:
            frame = self.frames.get()
            if frame is None:
                break
            tensor = torch.from_numpy(frame).to(self.model.device).float()
            batch = self.preprocess(tensor)
            self.sink(self.model.infer(np.ascontiguousarray(batch.cpu().numpy())))


def start(engines, preprocess, sink):
    threads = [PipelineThread(TRTModel(engine), preprocess, sink) for engine in engines]
    for thread in threads:
        thread.start()
    return threads
