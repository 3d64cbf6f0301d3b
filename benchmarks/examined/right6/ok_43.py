import tensorrt as trt
import torch


class TorchOutputAllocator(trt.IOutputAllocator):
    """Serves data dependent output sizes from torch memory."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream
        self.blocks = {}
        self.shapes = {}

    def reallocate_output_async(self, name, memory, size, alignment, stream):
        block = self.blocks.get(name)
        if block is None or block.numel() < size:
            with torch.cuda.stream(self.stream):
                block = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")
            self.blocks[name] = block
        return block.data_ptr()

    def notify_shape(self, name, shape):
        self.shapes[name] = tuple(shape)

    def tensor(self, name, dtype):
        shape = self.shapes[name]
        count = 1
        for s in shape:
            count *= s
        item = torch.empty((), dtype=dtype).element_size()
        return self.blocks[name][:count * item].view(dtype).view(shape)


class NonZeroEngine:
    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = torch.cuda.Stream()
        self.allocator = TorchOutputAllocator(self.stream)
        self.context.set_output_allocator("indices", self.allocator)

    def __call__(self, mask):
        """Takes a host mask and returns host indices."""
        with torch.cuda.stream(self.stream):
            device_mask = mask.to("cuda", dtype=torch.int32)
            self.context.set_input_shape("mask", tuple(device_mask.shape))
            self.context.set_tensor_address("mask", device_mask.data_ptr())
            self.context.execute_async_v3(self.stream.cuda_stream)
            return self.allocator.tensor("indices", torch.int32).cpu()


def main():
    with open("nonzero.plan", "rb") as f:
        engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(f.read())
    op = NonZeroEngine(engine)
    for n in (100, 5000, 300):
        mask = torch.rand(n) > 0.5
        print(n, op(mask).shape)


if __name__ == "__main__":
    main()
