"""TensorRT engine as a torch-style callable, used by several request threads."""
import threading
from concurrent.futures import ThreadPoolExecutor

import tensorrt as trt
import torch

LOGGER = trt.Logger(trt.Logger.WARNING)
TORCH_TYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
}


def build_engine(hw):
    builder = trt.Builder(LOGGER)
    net = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    x = net.add_input("image", trt.float32, (1, 3, hw, hw))
    pool = net.add_pooling_nd(x, trt.PoolingType.AVERAGE, (8, 8))
    pool.stride_nd = (8, 8)
    act = net.add_activation(pool.get_output(0), trt.ActivationType.RELU)
    act.get_output(0).name = "features"
    net.mark_output(act.get_output(0))
    plan = builder.build_serialized_network(net, builder.create_builder_config())
    return trt.Runtime(LOGGER).deserialize_cuda_engine(plan)


class TRTModule:
    """Keeps the engine and the execution setup that belong together."""

    def __init__(self, engine):
        self.engine = engine
        self.stream = torch.cuda.current_stream()
        self.inputs, self.outputs = [], []
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            mode = engine.get_tensor_mode(name)
            (self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs).append(name)

    def make_context(self):
        return self.engine.create_execution_context()

    def __call__(self, ctx, *args):
        args = [a.contiguous() for a in args]
        for name, a in zip(self.inputs, args):
            ctx.set_tensor_address(name, a.data_ptr())
        outs = []
        for name in self.outputs:
            shape = tuple(ctx.get_tensor_shape(name))
            dtype = TORCH_TYPES[self.engine.get_tensor_dtype(name)]
            out = torch.empty(shape, dtype=dtype, device="cuda")
            ctx.set_tensor_address(name, out.data_ptr())
            outs.append(out)
        ctx.execute_async_v3(self.stream.cuda_stream)
        return outs[0] if len(outs) == 1 else outs


class Worker(threading.local):
    """Per-thread stream and context."""

    def __init__(self, module):
        self.stream = torch.cuda.Stream()
        self.ctx = module.make_context()


class Service:
    def __init__(self, hw=512):
        self.setup = torch.cuda.Stream()
        with torch.cuda.stream(self.setup):
            self.module = TRTModule(build_engine(hw))
        self.local = Worker(self.module)
        self.mean = torch.tensor([0.48, 0.46, 0.41], device="cuda").view(1, 3, 1, 1)
        self.std = torch.tensor([0.27, 0.26, 0.28], device="cuda").view(1, 3, 1, 1)
        torch.cuda.synchronize()

    def handle(self, raw):
        w = self.local
        with torch.cuda.stream(w.stream):
            img = torch.from_numpy(raw).cuda().permute(2, 0, 1).unsqueeze(0).float()
            img = (img / 255.0 - self.mean) / self.std
            feat = self.module(w.ctx, img)
            score = feat.flatten(1).softmax(dim=1).amax()
            return score.item()


def main():
    import numpy as np
    rng = np.random.default_rng(0)
    service = Service()
    frames = [rng.integers(0, 256, (512, 512, 3), dtype=np.uint8) for _ in range(64)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        print(sum(pool.map(service.handle, frames)))


if __name__ == "__main__":
    main()
