"""Sparse all-reduce of top-k gradients (deep gradient compression), overlapped with backward."""
from dataclasses import dataclass
from typing import List

import torch
import torch.distributed as dist


@dataclass
class EncodedGrad:
    param: torch.nn.Parameter
    packed: torch.Tensor
    ready: torch.cuda.Event


class SparseAllReduceHandle:
    """Gathers the encoded gradients of all ranks and rebuilds the dense sum on ``comm_stream``."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        self.group = group
        self.world_size = group.size()
        self.comm_stream = torch.cuda.Stream(device)

    def run(self, encoded: EncodedGrad) -> torch.cuda.Event:
        packed = encoded.packed
        gathered = torch.empty(self.world_size * packed.numel(), dtype=packed.dtype, device=packed.device)
        self.comm_stream.wait_event(encoded.ready)
        with torch.cuda.stream(self.comm_stream):
            dist.all_gather_into_tensor(gathered, packed, group=self.group)
            values, indices = gathered.view(self.world_size, 2, -1).unbind(1)
            grad = encoded.param.grad.view(-1)
            grad.zero_()
            grad.index_add_(0, indices.reshape(-1).long(), values.reshape(-1) / self.world_size)
            gathered.record_stream(self.comm_stream)
            packed.record_stream(self.comm_stream)
            return self.comm_stream.record_event()


class DGCReducer:
    def __init__(self, module: torch.nn.Module, group: dist.ProcessGroup, ratio: float = 0.01, bucket: int = 8):
        self.ratio = ratio
        self.bucket = bucket
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.device = self.params[0].device
        self.residual = {p: torch.zeros(p.numel(), device=self.device) for p in self.params}
        self.handle = SparseAllReduceHandle(group, self.device)
        self.waiting: List[EncodedGrad] = []
        self.done: List[torch.cuda.Event] = []
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    @torch.no_grad()
    def _encode(self, param: torch.nn.Parameter) -> EncodedGrad:
        flat = self.residual[param].add_(param.grad.reshape(-1))
        k = max(1, int(flat.numel() * self.ratio))
        indices = flat.abs().topk(k, sorted=False).indices
        values = flat[indices]
        flat[indices] = 0
        packed = torch.stack([values, indices.to(values.dtype)]).view(-1)
        return EncodedGrad(param, packed, torch.cuda.current_stream().record_event())

    @torch.no_grad()
    def _launch(self) -> None:
        batch, self.waiting = self.waiting, []
        for encoded in batch:
            self.done.append(self.handle.run(encoded))

    def _on_grad(self, param: torch.nn.Parameter) -> None:
        self.waiting.append(self._encode(param))
        if len(self.waiting) >= self.bucket:
            self._launch()

    def finish(self) -> None:
        self._launch()
        for event in self.done:
            torch.cuda.current_stream().wait_event(event)
        self.done.clear()


def train_step(model, reducer: DGCReducer, optimizer, inputs, target, loss_fn):
    optimizer.zero_grad(set_to_none=False)
    loss = loss_fn(model(inputs), target)
    loss.backward()
    reducer.finish()
    optimizer.step()
    return loss.detach()
