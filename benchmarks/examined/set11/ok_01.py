"""Model provider: builds the (virtual pipeline) chunks and wraps them for data parallelism."""
from dataclasses import dataclass
from typing import Callable, List, Optional

import torch
import torch.distributed as dist
from torch import nn


@dataclass
class DDPConfig:
    grad_reduce_in_fp32: bool = False
    overlap_param_gather: bool = True
    bucket_size: Optional[int] = 40_000_000


class DistributedDataParallel(nn.Module):
    """Keeps parameters and gradients of one chunk in two contiguous buffers."""

    def __init__(self, config: DDPConfig, module: nn.Module, group: dist.ProcessGroup):
        super().__init__()
        self.config = config
        self.module = module
        self.group = group

        params = [p for p in module.parameters() if p.requires_grad]
        numel = sum(p.numel() for p in params)
        grad_dtype = torch.float32 if config.grad_reduce_in_fp32 else params[0].dtype
        self.param_data = torch.empty(numel, dtype=params[0].dtype, device=params[0].device)
        self.grad_data = torch.zeros(numel, dtype=grad_dtype, device=params[0].device)

        offset = 0
        for param in params:
            end = offset + param.numel()
            old_param_data = param.data
            param.data = self.param_data[offset:end].view(old_param_data.shape)
            param.data.detach().copy_(old_param_data)
            param.main_grad = self.grad_data[offset:end].view(old_param_data.shape)
            del old_param_data
            offset = end

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def broadcast_params(self) -> None:
        src = dist.get_global_rank(self.group, 0)
        for param in self.module.parameters():
            dist.broadcast(param.data, src=src, group=self.group)


def get_model(
    chunk_providers: List[Callable[[], nn.Module]],
    ddp_config: DDPConfig,
    group: dist.ProcessGroup,
    bf16: bool = True,
    data_parallel_random_init: bool = False,
) -> List[nn.Module]:
    model = [provider() for provider in chunk_providers]
    for chunk in model:
        chunk.cuda(torch.cuda.current_device())
        if bf16:
            chunk.bfloat16()

    ddp_stream = torch.cuda.Stream()
    ddp_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(ddp_stream):
        model = [
            DistributedDataParallel(
                config=DDPConfig(**{**vars(ddp_config), "bucket_size": None if idx > 0 else ddp_config.bucket_size}),
                module=chunk,
                group=group,
            )
            for idx, chunk in enumerate(model)
        ]
    torch.cuda.current_stream().wait_stream(ddp_stream)

    if data_parallel_random_init:
        for chunk in model:
            chunk.broadcast_params()
    return model
