import os

import torch
import torch.distributed as dist
from torch import nn


class ChunkedExchange:
    def __init__(self, expert, chunks):
        self.expert = expert
        self.chunks = chunks

    def _start(self, send):
        recv = torch.empty_like(send)
        work = dist.all_to_all_single(recv, send, async_op=True)
        return work, send, recv

    def __call__(self, x):
        dispatched = [self._start(c) for c in x.chunk(self.chunks)]
        combined = []
        for work, _, recv in dispatched:
            work.wait()
            combined.append(self._start(self.expert(recv)))
        parts = []
        for work, _, recv in combined:
            work.wait()
            parts.append(recv)
        return torch.cat(parts)


class MoELayer(nn.Module):
    def __init__(self, dim, hidden, chunks=4):
        super().__init__()
        self.expert = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.exchange = ChunkedExchange(self.expert, chunks)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        order = x[:, 0].argsort()
        routed = self.exchange(self.norm(x)[order].contiguous())
        return x.index_add(0, order, routed)


@torch.inference_mode()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    world = dist.get_world_size()
    layers = nn.Sequential(*[MoELayer(512, 2048) for _ in range(4)]).cuda()
    tokens = 4 * world * 64
    for _ in range(8):
        y = layers(torch.randn(tokens, 512, device="cuda"))
        y_norm = y.norm()
        dist.all_reduce(y_norm)
        if dist.get_rank() == 0:
            print(y_norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
