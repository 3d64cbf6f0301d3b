from typing import List

import torch
import torch.distributed as dist
import torch.nn as nn


class IPGBucket:
    def __init__(self, numel: int, dtype: torch.dtype, device: torch.device):
        self.buffer = torch.empty(numel, dtype=dtype, device=device)
        self.params: List[nn.Parameter] = []
        self.elements = 0


class ZeroStage3GradReducer:
    """Buckets gradients and reduces them on a separate stream."""

    def __init__(self, params: List[nn.Parameter], bucket_size: int, dp_group=None):
        self.params = params
        self.dp_group = dp_group
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.bucket = IPGBucket(bucket_size, torch.bfloat16, self.device)
        self.reduce_and_partition_stream = torch.cuda.Stream(self.device)
        self.averaged = {}

    def reduce_independent_p_g_buckets(self, param: nn.Parameter) -> None:
        if self.bucket.elements + param.numel() > self.bucket.buffer.numel():
            self.reduce_ipg_grads()
        self._add_grad_to_ipg_bucket(param)

    @torch.no_grad()
    def _add_grad_to_ipg_bucket(self, param: nn.Parameter) -> None:
        self.reduce_and_partition_stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(self.reduce_and_partition_stream):
            start = self.bucket.elements
            window = self.bucket.buffer.narrow(0, start, param.numel())
            window.copy_(param.grad.view(-1))
            param.grad.record_stream(self.reduce_and_partition_stream)
        param.grad = None
        self.bucket.elements += param.numel()
        self.bucket.params.append(param)

    @torch.no_grad()
    def reduce_ipg_grads(self) -> None:
        with torch.cuda.stream(self.reduce_and_partition_stream):
            flat = self.bucket.buffer.narrow(0, 0, self.bucket.elements)
            flat.div_(dist.get_world_size(self.dp_group))
            dist.all_reduce(flat, group=self.dp_group)
            offset = 0
            for param in self.bucket.params:
                self.averaged[param] = flat.narrow(0, offset, param.numel()).float()
                offset += param.numel()
        self.bucket.params = []
        self.bucket.elements = 0

    def reduction_epilogue(self) -> None:
        if self.bucket.elements:
            self.reduce_ipg_grads()
        torch.cuda.current_stream().wait_stream(self.reduce_and_partition_stream)


class Engine:
    def __init__(self, module: nn.Module, lr: float = 1e-4):
        self.module = module.cuda().bfloat16()
        self.lr = lr
        self.reducer = ZeroStage3GradReducer(list(self.module.parameters()), 64 << 20)
        self.compute_stream = torch.cuda.Stream()
        self.compute_stream.wait_stream(torch.cuda.current_stream())

    def train_batch(self, batch: torch.Tensor) -> None:
        self.compute_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.compute_stream):
            loss = self.module(batch).float().pow(2).mean()
            loss.backward()
            for param in reversed(self.reducer.params):
                self.reducer.reduce_independent_p_g_buckets(param)
            self.reducer.reduction_epilogue()
            self._step()
        torch.cuda.current_stream().wait_stream(self.compute_stream)

    @torch.no_grad()
    def _step(self) -> None:
        for param, grad in self.reducer.averaged.items():
            grad.record_stream(torch.cuda.current_stream())
            param.sub_(grad.view_as(param).to(param.dtype), alpha=self.lr)
        self.reducer.averaged.clear()


def train(loader, dim: int = 4096) -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    engine = Engine(nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim)))
    for _ in range(100):
        engine.train_batch(torch.randn(32, dim, device="cuda", dtype=torch.bfloat16))
    torch.cuda.synchronize()
