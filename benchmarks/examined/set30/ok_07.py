"""Sequence-parallel attention: the exchange of values hides behind the query and key products."""
import torch
import torch.distributed as dist
from torch import nn


class Exchange:
    """all-to-all on a stream of its own; ``join`` makes the caller's stream see the result."""

    def __init__(self, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.stream = torch.cuda.Stream()

    def start(self, x):
        """x: [heads, tokens, dim] -> heads split over ranks, tokens gathered."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            send = x.contiguous()
            recv = torch.empty_like(send)
            work = dist.all_to_all_single(recv, send, group=self.group, async_op=True)
            work.wait()
            heads, tokens, dim = x.shape
            shards = recv.view(self.world, heads // self.world, tokens, dim)
            out = shards.transpose(0, 1).reshape(heads // self.world, self.world * tokens, dim)
            done = torch.cuda.Event()
            done.record()
        x.record_stream(self.stream)
        return out, done

    @staticmethod
    def join(pending):
        out, done = pending
        here = torch.cuda.current_stream()
        here.wait_event(done)
        out.record_stream(here)
        return out


class UlyssesAttention(nn.Module):
    def __init__(self, width, heads, exchange):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.exchange = exchange

    def _split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(0, 1)

    def forward(self, x):
        values = self.exchange.start(self._split(self.v(x)))
        queries = self.exchange.start(self._split(self.q(x)))
        keys = self.exchange.start(self._split(self.k(x)))
        q, k, v = (self.exchange.join(p) for p in (queries, keys, values))
        y = nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return self.o(self._back(y))

    def _back(self, y):
        heads, tokens, dim = y.shape
        world = self.exchange.world
        send = y.view(heads, world, tokens // world, dim).transpose(0, 1).contiguous()
        recv = torch.empty_like(send)
        dist.all_to_all_single(recv, send, group=self.exchange.group)
        return recv.flatten(0, 1).transpose(0, 1).flatten(1)


@torch.inference_mode()
def run(steps=20, depth=8, width=1024, heads=16, tokens=4096):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    exchange = Exchange()
    layers = nn.ModuleList(UlyssesAttention(width, heads, exchange) for _ in range(depth)).cuda()
    x = torch.randn(tokens // world, width, device="cuda")
    for _ in range(steps):
        for layer in layers:
            x = x + layer(nn.functional.rms_norm(x, (width,)))
    norm = x.square().sum()
    dist.all_reduce(norm)
    result = norm.item()
    dist.destroy_process_group()
    return result


if __name__ == "__main__":
    run()
