"""TensorRT detector fed by a separate upload stream and the input-consumed event."""
import cupy as cp
import cupyx
import numpy as np
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.ERROR)


class Detector:
    def __init__(self, plan, inp="images", out="boxes"):
        self.runtime = trt.Runtime(LOGGER)
        with open(plan, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.upload = cp.cuda.Stream(non_blocking=True)
        self.infer = cp.cuda.Stream(non_blocking=True)
        shape_in = tuple(self.engine.get_tensor_shape(inp))
        shape_out = tuple(self.engine.get_tensor_shape(out))
        self.d_in = cp.empty(shape_in, cp.float32)
        self.d_out = cp.empty(shape_out, cp.float32)
        self.stage = [cupyx.empty_pinned(shape_in, np.float32) for _ in range(2)]
        self.result = cupyx.empty_pinned(shape_out, np.float32)
        self.copied = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.consumed = cp.cuda.Event(disable_timing=True)
        self.fetched = cp.cuda.Event(disable_timing=True)
        self.context.set_tensor_address(inp, self.d_in.data.ptr)
        self.context.set_tensor_address(out, self.d_out.data.ptr)
        self.context.set_input_consumed_event(self.consumed.ptr)
        self.k = 0

    def _submit(self, batch):
        i = self.k % 2
        self.copied[i].synchronize()
        self.stage[i][...] = batch
        if self.k:
            self.upload.wait_event(self.consumed)
        self.d_in.set(self.stage[i], stream=self.upload)
        self.copied[i].record(self.upload)
        self.infer.wait_event(self.copied[i])
        self.context.execute_async_v3(self.infer.ptr)
        self.d_out.get(stream=self.infer, out=self.result, blocking=False)
        self.fetched.record(self.infer)
        self.k += 1

    def _fetch(self):
        self.fetched.synchronize()
        return self.result.copy()

    def stream(self, batches):
        for batch in batches:
            if self.k:
                yield self._fetch()
            self._submit(batch)
        if self.k:
            yield self._fetch()


if __name__ == "__main__":
    det = Detector("yolo.plan")
    src = (np.random.rand(1, 3, 640, 640).astype(np.float32) for _ in range(6))
    for boxes in det.stream(src):
        print(boxes.shape, boxes.max())
