import torch
import torch.distributed as dist
import torch.nn as nn


class FullyShardedParams:
    def __init__(self, module: nn.Module, process_group, move_grads_to_cpu=True):
        self.module = module
        self.process_group = process_group
        self.world_size = process_group.size()
        self.move_grads_to_cpu = move_grads_to_cpu
        self._streams = {"post_backward": torch.cuda.Stream()}
        self.cpu_params = []
        for p in module.parameters():
            shard = torch.zeros(self._shard_numel(p), pin_memory=move_grads_to_cpu)
            p._cpu_grad = torch.zeros_like(shard, pin_memory=move_grads_to_cpu)
            p._fp32_shard = nn.Parameter(shard)
            self.cpu_params.append(p._fp32_shard)
            p.register_post_accumulate_grad_hook(self._post_backward_hook)

    def _shard_numel(self, p):
        return (p.numel() + self.world_size - 1) // self.world_size

    def _post_backward_hook(self, p):
        stream = self._streams["post_backward"]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            grad = p.grad.data
            flat = torch.zeros(self._shard_numel(p) * self.world_size, device=grad.device)
            flat[: grad.numel()].copy_(grad.view(-1))
            reduced = torch.empty(self._shard_numel(p), device=grad.device)
            dist.reduce_scatter_tensor(reduced, flat, group=self.process_group)
            self._post_reduction_hook(p, reduced)
            grad.record_stream(stream)
        p.grad = None

    def _post_reduction_hook(self, p, reduced_grad):
        reduced_grad.div_(self.world_size)
        if self.move_grads_to_cpu:
            p._cpu_grad.copy_(reduced_grad, non_blocking=True)
            p._fp32_shard.grad = p._cpu_grad
        else:
            p._fp32_shard.grad = reduced_grad

    def _wait_for_post_backward(self):
        torch.cuda.current_stream().wait_stream(self._streams["post_backward"])

    def gather(self):
        for p in self.module.parameters():
            shard = p._fp32_shard.data.to(p.device)
            full = torch.empty(shard.numel() * self.world_size, device=p.device)
            dist.all_gather_into_tensor(full, shard, group=self.process_group)
            p.data.copy_(full[: p.numel()].view_as(p))


def train_step(sharded, optimizer, batch, loss_fn):
    loss = loss_fn(sharded.module(batch["x"]), batch["y"])
    loss.backward()
    sharded._wait_for_post_backward()
    torch.nn.utils.clip_grad_norm_(sharded.cpu_params, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    sharded.gather()
    return loss.detach()
