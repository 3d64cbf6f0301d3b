from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class ErrorFeedbackState:
    group: dist.ProcessGroup
    residual: dict[int, torch.Tensor] = field(default_factory=dict)


def bf16_error_feedback_hook(state: ErrorFeedbackState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Compresses a bucket to bfloat16 and keeps what rounding dropped."""
    buffer = bucket.buffer()
    index = bucket.index()
    world = dist.get_world_size(state.group)
    carried = state.residual.get(index)
    if carried is not None and carried.numel() == buffer.numel():
        buffer.add_(carried)
    packed = buffer.to(torch.bfloat16)
    state.residual[index] = buffer - packed.float()
    packed.div_(world)
    future = dist.all_reduce(packed, group=state.group, async_op=True).get_future()

    def decompress(fut: torch.futures.Future) -> torch.Tensor:
        buffer.copy_(fut.value()[0])
        return buffer

    return future.then(decompress)


def main() -> None:
    dist.init_process_group("nccl")
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    torch.manual_seed(7)
    model = DDP(
        nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda(),
        device_ids=[device],
        bucket_cap_mb=1,
    )
    model.register_comm_hook(ErrorFeedbackState(dist.group.WORLD), bf16_error_feedback_hook)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(50):
        x = torch.randn(64, 256, device="cuda")
        loss = (model(x) - x.flip(1)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
