"""Low-precision parameter views for evaluation (unsharded strategy, one flat parameter per module)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Streams:
    def __init__(self):
        self.pre_unshard = torch.cuda.Stream()

    def compute(self):
        return torch.cuda.current_stream()


class FlatParamHandle:
    """Master weights in fp32; a bf16 shard exists only around the forward pass."""

    def __init__(self, module: nn.Module, streams: Streams):
        self.module = module
        self.streams = streams
        self.names = [n for n, _ in module.named_parameters(recurse=False)]
        params = [p for _, p in module.named_parameters(recurse=False)]
        self.shapes = [p.shape for p in params]
        self.flat = torch.cat([p.detach().reshape(-1) for p in params]).cuda()
        for name in self.names:
            delattr(module, name)
            setattr(module, name, None)
        self.mp_shard = None
        self.cast_done = torch.cuda.Event()

    def pre_unshard(self):
        if self.mp_shard is not None:
            return
        with torch.cuda.stream(self.streams.pre_unshard):
            self.mp_shard = torch.empty_like(self.flat, dtype=torch.bfloat16)
            self.mp_shard.copy_(self.flat, non_blocking=True)
            self.cast_done.record(self.streams.pre_unshard)

    def use_views(self):
        self.pre_unshard()
        self.streams.compute().wait_event(self.cast_done)
        offset = 0
        for name, shape in zip(self.names, self.shapes):
            numel = shape.numel()
            setattr(self.module, name, self.mp_shard[offset:offset + numel].view(shape))
            offset += numel

    def free_mp_shard(self):
        for name in self.names:
            setattr(self.module, name, None)
        self.mp_shard = None


class Linear(nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim_out, dim_in) / dim_in ** 0.5)
        self.bias = nn.Parameter(torch.zeros(dim_out))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


class MixedPrecisionEvaluator:
    def __init__(self, model: nn.Module, prefetch=1):
        self.model = model
        self.streams = Streams()
        self.prefetch = prefetch
        self.handles = []
        for module in model.modules():
            if next(module.named_parameters(recurse=False), None) is None:
                continue
            handle = FlatParamHandle(module, self.streams)
            index = len(self.handles)
            self.handles.append(handle)
            module.register_forward_pre_hook(self._pre_forward(index))
            module.register_forward_hook(self._post_forward(index))
        torch.cuda.synchronize()

    def _pre_forward(self, index):
        def hook(module, args):
            self.handles[index].use_views()
            for nxt in self.handles[index + 1:index + 1 + self.prefetch]:
                nxt.pre_unshard()

        return hook

    def _post_forward(self, index):
        def hook(module, args, output):
            self.handles[index].free_mp_shard()

        return hook

    @torch.no_grad()
    def evaluate(self, batches):
        total = torch.zeros((), device="cuda")
        for x, y in batches:
            out = self.model(x.cuda(non_blocking=True).bfloat16())
            total += F.mse_loss(out.float(), y.cuda(non_blocking=True))
        return float(total) / len(batches)


def main():
    layers = []
    for _ in range(12):
        layers += [Linear(2048, 2048), nn.GELU()]
    evaluator = MixedPrecisionEvaluator(nn.Sequential(*layers))
    data = [(torch.randn(4096, 2048).pin_memory(), torch.randn(4096, 2048).pin_memory()) for _ in range(8)]
    print(evaluator.evaluate(data))


if __name__ == "__main__":
    main()
