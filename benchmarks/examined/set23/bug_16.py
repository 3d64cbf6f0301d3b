"""Asynchronous expert parallelism over static exchange buffers."""
import torch
import torch.distributed as dist
from torch import nn


class ExchangeBuffers:
    def __init__(self, rows, dim, world):
        self.recv = torch.empty(rows, dim, device="cuda", dtype=torch.bfloat16)
        self.counts = torch.empty(world, device="cuda", dtype=torch.int64)
        self.arrived = torch.cuda.Event()


class MinimalAsyncEP:
    def __init__(self, rows, dim, group, num_sets=2):
        self.group = group
        self.world = dist.get_world_size(group)
        self.sets = [ExchangeBuffers(rows, dim, self.world) for _ in range(num_sets)]
        self.comm_stream = torch.cuda.Stream(priority=-1)

    def select(self, chunk_id):
        return self.sets[chunk_id % len(self.sets)]

    def dispatch(self, chunk_id, tokens, counts, input_ready):
        bufs = self.select(chunk_id)
        with torch.cuda.stream(self.comm_stream):
            self.comm_stream.wait_event(input_ready)
            dist.all_to_all_single(bufs.counts, counts, group=self.group)
            dist.all_to_all_single(bufs.recv, tokens, group=self.group)
            bufs.arrived.record()
        return bufs

    def wait(self, bufs):
        torch.cuda.current_stream().wait_event(bufs.arrived)

    def combine(self, expert_out):
        out = torch.empty_like(expert_out)
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            dist.all_to_all_single(out, expert_out, group=self.group)
        return out

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.comm_stream)


class RoutedExperts(nn.Module):
    def __init__(self, dim, ffn):
        super().__init__()
        scale = dim ** -0.5
        self.w13 = nn.Parameter(torch.randn(dim, 2 * ffn, device="cuda", dtype=torch.bfloat16) * scale)
        self.w2 = nn.Parameter(torch.randn(ffn, dim, device="cuda", dtype=torch.bfloat16) * scale)

    def forward(self, x):
        gate, up = (x @ self.w13).chunk(2, dim=-1)
        return (nn.functional.silu(gate) * up) @ self.w2


class MoE(nn.Module):
    def __init__(self, dim, ffn, rows, group, chunks=4):
        super().__init__()
        self.router = nn.Linear(dim, dist.get_world_size(group), bias=False).cuda().bfloat16()
        self.experts = RoutedExperts(dim, ffn)
        self.ep = MinimalAsyncEP(rows // chunks, dim, group)
        self.chunks = chunks

    def route(self, x):
        order = self.router(x).argmax(-1).argsort()
        counts = torch.full((self.ep.world,), x.shape[0] // self.ep.world, device="cuda")
        return x[order], counts, order

    def forward(self, x):
        routed = []
        for chunk in x.chunk(self.chunks):
            tokens, counts, order = self.route(chunk)
            input_ready = torch.cuda.Event()
            input_ready.record()
            routed.append((tokens, counts, order, input_ready))
        inflight, combined = [], []
        for i in range(min(len(self.ep.sets), self.chunks)):
            inflight.append(self.ep.dispatch(i, routed[i][0], routed[i][1], routed[i][3]))
        for i in range(self.chunks):
            bufs = inflight[i]
            self.ep.wait(bufs)
            expert_out = self.experts(bufs.recv)
            following = i + len(self.ep.sets)
            if following < self.chunks:
                tokens, counts, _, ready = routed[following]
                inflight.append(self.ep.dispatch(following, tokens, counts, ready))
            combined.append((expert_out, self.ep.combine(expert_out)))
        self.ep.finish()
        outs = []
        for (_, _, order, _), (_, out) in zip(routed, combined):
            outs.append(torch.empty_like(out).index_copy_(0, order, out))
        return x + torch.cat(outs)


@torch.no_grad()
def main(tokens=16384, dim=2048, ffn=4096, layers=4, steps=20):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = nn.Sequential(*[MoE(dim, ffn, tokens, dist.group.WORLD) for _ in range(layers)])
    for _ in range(steps):
        out = model(torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16))
        print(out.float().square().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
