"""Two-device pipeline for inference; each half keeps a stream of its own."""
import contextlib

import torch
from torch import nn


class Stage:
    def __init__(self, module, device):
        self.device = torch.device(device)
        self.module = module.to(self.device).eval()
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

    def __call__(self, x):
        return self.module(x)


class TwoDevicePipeline:
    def __init__(self, first, second, devices=("cuda:0", "cuda:1")):
        self.stages = [Stage(first, devices[0]), Stage(second, devices[1])]

    @contextlib.contextmanager
    def _own_streams(self):
        with contextlib.ExitStack() as stack:
            for stage in self.stages:
                stack.enter_context(torch.cuda.stream(stage.stream))
            yield

    @torch.inference_mode()
    def run(self, batches):
        """batches: iterable of host tensors; returns a list of host tensors."""
        head, tail = self.stages
        in_flight, outputs = None, []
        with self._own_streams():
            for batch in batches:
                hidden = head(batch.to(head.device, non_blocking=True))
                moved = hidden.to(tail.device, non_blocking=True)
                del hidden
                if in_flight is not None:
                    outputs.append(in_flight.cpu())
                in_flight = tail(moved)
            if in_flight is not None:
                outputs.append(in_flight.cpu())
        return outputs


def mlp(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers)


def main(width=4096, depth=8, count=32, batch=512):
    pipe = TwoDevicePipeline(mlp(width, depth), mlp(width, depth))
    data = [torch.randn(batch, width, pin_memory=True) for _ in range(count)]
    return torch.stack([o.mean() for o in pipe.run(data)])


if __name__ == "__main__":
    print(main())
