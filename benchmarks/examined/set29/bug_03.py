"""Single-GPU check of the context-parallel decode all-to-all with one stream per rank."""
from __future__ import annotations

import torch


class A2AWorkspace:
    """Receive areas of all ranks, addressed [dst_rank, src_rank]."""

    def __init__(self, cp_size: int, batch: int, heads: int, dim: int) -> None:
        self.cp_size = cp_size
        self.partial_o = torch.zeros(
            cp_size, cp_size, batch, heads, dim, dtype=torch.bfloat16, device="cuda"
        )
        self.stats = torch.zeros(cp_size, cp_size, batch, heads, 2, device="cuda")
        self.sent = [torch.cuda.Event() for _ in range(cp_size)]


def alltoall_send(ws: A2AWorkspace, rank: int, partial_o: torch.Tensor, stats: torch.Tensor) -> None:
    for dst in range(ws.cp_size):
        ws.partial_o[dst, rank].copy_(partial_o[dst])
        ws.stats[dst, rank].copy_(stats[dst])
    ws.sent[rank].record()


def alltoall_recv(ws: A2AWorkspace, rank: int):
    for src in range(ws.cp_size):
        torch.cuda.current_stream().wait_event(ws.sent[src])
    return ws.partial_o[rank].clone(), ws.stats[rank].clone()


def make_inputs(cp_size: int, batch: int, heads: int, dim: int, seed: int):
    gen = torch.Generator(device="cuda").manual_seed(seed)
    partial_o = [
        torch.randn(cp_size, batch, heads, dim, device="cuda", generator=gen).to(torch.bfloat16)
        for _ in range(cp_size)
    ]
    stats = [
        torch.randn(cp_size, batch, heads, 2, device="cuda", generator=gen)
        for _ in range(cp_size)
    ]
    return partial_o, stats


def run_single_gpu_alltoall(ws: A2AWorkspace, streams, partial_o, stats):
    outs = [None] * ws.cp_size
    for rank in range(ws.cp_size):
        with torch.cuda.stream(streams[rank]):
            alltoall_send(ws, rank, partial_o[rank], stats[rank])
    for rank in range(ws.cp_size):
        with torch.cuda.stream(streams[rank]):
            outs[rank] = alltoall_recv(ws, rank)
    for stream in streams:
        stream.synchronize()
    return outs


def check_round(outs, partial_o, stats, cp_size: int) -> None:
    for dst in range(cp_size):
        want_o = torch.stack([partial_o[src][dst] for src in range(cp_size)])
        want_s = torch.stack([stats[src][dst] for src in range(cp_size)])
        torch.testing.assert_close(outs[dst][0], want_o, rtol=0, atol=0)
        torch.testing.assert_close(outs[dst][1], want_s, rtol=0, atol=0)


def repeated_alltoall(cp_size: int, rounds: int, batch=64, heads=16, dim=512) -> None:
    ws = A2AWorkspace(cp_size, batch, heads, dim)
    streams = [torch.cuda.Stream() for _ in range(cp_size)]
    torch.cuda.synchronize()
    for r in range(rounds):
        partial_o, stats = make_inputs(cp_size, batch, heads, dim, seed=r)
        outs = run_single_gpu_alltoall(ws, streams, partial_o, stats)
        check_round(outs, partial_o, stats, cp_size)


if __name__ == "__main__":
    for size in (2, 4):
        repeated_alltoall(size, rounds=3)
    print("ok")
