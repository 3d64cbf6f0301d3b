"""Weight averaging with a raw CuPy kernel inside a torch loop that runs on a side stream."""
import copy
from contextlib import contextmanager

import cupy as cp
import numpy as np
import torch
import torch.nn as nn

_ema = cp.RawKernel(r"""
extern "C" __global__ void ema(float* avg, const float* cur, const float decay, const long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) avg[i] = decay * avg[i] + (1.0f - decay) * cur[i];
}
""", "ema")


@contextmanager
def torch_stream_for_cupy():
    ptr = torch.cuda.current_stream().cuda_stream
    with cp.cuda.ExternalStream(ptr):
        yield


class WeightAverage:
    def __init__(self, model, decay):
        self.decay = np.float32(decay)
        self.model = copy.deepcopy(model)
        for p in self.model.parameters():
            p.requires_grad_(False)

    def update(self, model):
        with torch_stream_for_cupy():
            for avg, cur in zip(self.model.parameters(), model.parameters()):
                n = avg.numel()
                _ema(((n + 255) // 256,), (256,),
                     (avg.data_ptr(), cur.data_ptr(), self.decay, np.int64(n)))


class Loop:
    def __init__(self, model, lr, decay):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.average = WeightAverage(model, decay)
        self.stream = torch.cuda.Stream()

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.opt.step()
        self.average.update(self.model)
        return loss.detach()

    def run(self, data, eval_batch):
        losses = []
        self.stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(self.stream):
            for x, y in data:
                losses.append(self.step(x, y))
            with torch.no_grad():
                score = nn.functional.mse_loss(self.average.model(eval_batch[0]), eval_batch[1])
            return [l.item() for l in losses], score.item()


def make_batch(n, dim):
    x = torch.randn(n, dim, device="cuda")
    return x, torch.sin(x)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.SiLU(), nn.Linear(4096, 1024)).cuda()
    loop = Loop(model, 1e-3, 0.99)
    data = [make_batch(512, 1024) for _ in range(20)]
    losses, score = loop.run(data, make_batch(512, 1024))
    print(losses[0], losses[-1], score)


if __name__ == "__main__":
    main()
