import time
from typing import Dict, List

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.nn.parallel import DistributedDataParallel


class Communicator:
    def __init__(self, groups: Dict[str, dist.ProcessGroup]):
        self._groups = groups

    def get_group(self, name: str) -> dist.ProcessGroup:
        return self._groups[name]

    def get_size(self, name: str) -> int:
        return dist.get_world_size(self._groups[name])

    def is_distributed(self, name: str) -> bool:
        return name in self._groups and self.get_size(name) > 1


def _collect_by_group(model: torch.nn.Module) -> Dict[str, List[torch.nn.Parameter]]:
    groups: Dict[str, List[torch.nn.Parameter]] = {}
    for param in model.parameters():
        if param.requires_grad and param.grad is not None:
            for name in getattr(param, "is_shared_mp", ()):
                groups.setdefault(name, []).append(param)
    return groups


class SharedWeightReducer:
    """Sums the gradients of weights that are shared over a model-parallel group."""

    def __init__(self, comm: Communicator, poll_interval: float = 1e-4):
        self.comm = comm
        self.poll_interval = poll_interval

    def _launch(self, params):
        grads = [p.grad.data for p in params]
        coalesced = _flatten_dense_tensors(grads)
        return grads, coalesced

    def __call__(self, model: torch.nn.Module) -> None:
        pending = []
        for name, params in _collect_by_group(model).items():
            if not self.comm.is_distributed(name):
                continue
            grads, coalesced = self._launch(params)
            coalesced.div_(self.comm.get_size(name))
            future = dist.all_reduce(
                coalesced, op=dist.ReduceOp.SUM, group=self.comm.get_group(name), async_op=True
            ).get_future()
            pending.append((future, grads))

        while pending:
            future, grads = pending.pop(0)
            if not future.done():
                pending.append((future, grads))
                time.sleep(self.poll_interval)
                continue
            reduced = future.value()[0]
            for buf, synced in zip(grads, _unflatten_dense_tensors(reduced, grads)):
                buf.copy_(synced)


def train_epoch(model, comm, loader, optimizer, criterion):
    ddp_model = DistributedDataParallel(model, process_group=comm.get_group("data"))
    reducer = SharedWeightReducer(comm)
    for inputs, targets in loader:
        inputs = inputs.cuda(non_blocking=True)
        targets = targets.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(ddp_model(inputs), targets)
        loss.backward()
        reducer(model)
        optimizer.step()
