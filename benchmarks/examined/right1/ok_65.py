"""TensorRT engine as a torch module, used beside the training stream."""
import tensorrt as trt
import torch

DTYPES = {
    trt.DataType.FLOAT: torch.float32,
    trt.DataType.HALF: torch.float16,
    trt.DataType.INT32: torch.int32,
    trt.DataType.INT64: torch.int64,
    trt.DataType.BOOL: torch.bool,
}


class TrtModule(torch.nn.Module):
    def __init__(self, path):
        super().__init__()
        self.logger = trt.Logger(trt.Logger.WARNING)
        self.runtime = trt.Runtime(self.logger)
        with open(path, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        is_input = lambda n: self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT
        self.inputs = [n for n in names if is_input(n)]
        self.outputs = [n for n in names if not is_input(n)]

    def _dtype(self, name):
        return DTYPES[self.engine.get_tensor_dtype(name)]

    def forward(self, *args):
        bound = []
        for name, arg in zip(self.inputs, args):
            t = arg.to(self._dtype(name)).contiguous()
            self.context.set_input_shape(name, tuple(t.shape))
            self.context.set_tensor_address(name, t.data_ptr())
            bound.append(t)
        results = []
        for name in self.outputs:
            shape = tuple(self.context.get_tensor_shape(name))
            t = torch.empty(shape, dtype=self._dtype(name), device=args[0].device)
            self.context.set_tensor_address(name, t.data_ptr())
            results.append(t)
        stream = torch.cuda.current_stream()
        if not self.context.execute_async_v3(stream.cuda_stream):
            raise RuntimeError("TensorRT execution failed")
        return results


class Teacher:
    """Runs the engine on a side stream and hands soft targets back."""

    def __init__(self, path):
        self.module = TrtModule(path)
        self.stream = torch.cuda.Stream()

    def start(self, images):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            (logits,) = self.module(images)
            probs = (logits.float() / 4.0).softmax(-1)
        images.record_stream(self.stream)
        return probs

    def collect(self, probs):
        main = torch.cuda.current_stream()
        main.wait_stream(self.stream)
        probs.record_stream(main)
        return probs


def distill(student, teacher, loader, opt):
    total = 0.0
    for images, _ in loader:
        images = images.cuda(non_blocking=True)
        pending = teacher.start(images)
        logp = (student(images) / 4.0).log_softmax(-1)
        loss = -(teacher.collect(pending) * logp).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total


if __name__ == "__main__":
    import sys
    import torchvision

    data = torchvision.datasets.FakeData(512, transform=torchvision.transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, 32, pin_memory=True)
    net = torchvision.models.resnet18().cuda()
    print(distill(net, Teacher(sys.argv[1]), loader, torch.optim.SGD(net.parameters(), 0.01)))
