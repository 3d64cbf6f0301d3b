"""Two-stage inference over two GPUs: each stage has a stream, micro-batches hop between them."""
import contextlib

import torch
from torch import nn


class Stage:
    def __init__(self, module, device):
        self.device = torch.device(device)
        self.module = module.to(self.device).eval()
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))


class TwoStage:
    def __init__(self, first, second):
        self.stages = [first, second]

    @contextlib.contextmanager
    def _on_stage_streams(self):
        with contextlib.ExitStack() as stack:
            for stage in self.stages:
                stack.enter_context(torch.cuda.stream(stage.stream))
            yield

    @torch.inference_mode()
    def __call__(self, host_batches):
        outputs = []
        with self._on_stage_streams():
            first, second = self.stages
            for batch in host_batches:
                x = batch.pin_memory().to(first.device, non_blocking=True)
                h = first.module(x)
                h = h.to(second.device, non_blocking=True)
                outputs.append(second.module(h))
            result = torch.cat(outputs)
            back = result.to(first.device, non_blocking=True)
            return back.cpu()


class ResidualStack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                          nn.Linear(4 * width, width)) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


def build(width, depth):
    torch.manual_seed(0)
    head = nn.Sequential(ResidualStack(width, depth), nn.Linear(width, 256))
    return TwoStage(Stage(ResidualStack(width, depth), "cuda:0"), Stage(head, "cuda:1"))


def main(micro_batches=16, rows=128, width=2048, depth=12):
    model = build(width, depth)
    gen = torch.Generator().manual_seed(1)
    batches = [torch.randn(rows, width, generator=gen) for _ in range(micro_batches)]
    return model(batches)


if __name__ == "__main__":
    print(main().shape)
