"""Expert-parallel MoE layer: micro-batches are dispatched on a communication stream that owns its outputs."""
from typing import List, Tuple

import torch
import torch.distributed as dist
from torch import nn


class TokenDispatcher:
    def __init__(self, group: dist.ProcessGroup):
        self.group = group
        self.comm_stream = torch.cuda.Stream()

    @staticmethod
    def capture() -> torch.cuda.Event:
        return torch.cuda.current_stream().record_event()

    def exchange(
        self,
        tokens: torch.Tensor,
        send_splits: List[int],
        recv_splits: List[int],
        previous: torch.cuda.Event,
    ) -> Tuple[torch.Tensor, torch.cuda.Event]:
        with torch.cuda.stream(self.comm_stream):
            self.comm_stream.wait_event(previous)
            received = tokens.new_empty((sum(recv_splits), tokens.shape[1]))
            dist.all_to_all_single(received, tokens, recv_splits, send_splits, group=self.group)
            done = self.comm_stream.record_event()
        tokens.record_stream(self.comm_stream)
        return received, done


class ExpertBlock(nn.Module):
    def __init__(self, hidden: int, inner: int):
        super().__init__()
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.nn.functional.silu(self.up(x)))


class OverlappedMoE(nn.Module):
    def __init__(self, hidden: int, inner: int, group: dist.ProcessGroup):
        super().__init__()
        self.dispatcher = TokenDispatcher(group)
        self.experts = ExpertBlock(hidden, inner)
        self.world = dist.get_world_size(group)

    @torch.no_grad()
    def forward(self, tokens: torch.Tensor, micro_batches: int = 4) -> torch.Tensor:
        chunks = tokens.chunk(micro_batches)
        inputs_ready = self.dispatcher.capture()
        compute = torch.cuda.current_stream()
        outputs, combined = [], []
        for chunk in chunks:
            splits = [chunk.shape[0] // self.world] * self.world
            routed, done = self.dispatcher.exchange(chunk, splits, splits, inputs_ready)
            compute.wait_event(done)
            outputs.append(self.experts(routed))
        for out in outputs:
            splits = [out.shape[0] // self.world] * self.world
            back, done = self.dispatcher.exchange(out, splits, splits, self.dispatcher.capture())
            compute.wait_event(done)
            back.record_stream(compute)
            combined.append(back)
        return torch.cat(combined)


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layer = OverlappedMoE(4096, 14336, dist.group.WORLD).cuda().bfloat16()
    for _ in range(10):
        tokens = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
        layer(tokens)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
