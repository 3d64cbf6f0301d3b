import contextlib
import types

import torch
import torch.distributed as dist


class _DistributedOptimizer:
    def __init__(self, optimizer, named_parameters, backward_passes_per_step=1):
        self._optimizer = optimizer
        self._parameter_names = {p: n for n, p in named_parameters}
        self.backward_passes_per_step = backward_passes_per_step
        self._push_pull_delay = {p: backward_passes_per_step for p in self._parameter_names}
        self._handles = {}
        self._should_synchronize = True
        for p in self._parameter_names:
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self._make_hook())

    @property
    def param_groups(self):
        return self._optimizer.param_groups

    def _push_pull_grad_async(self, p):
        p.grad.div_(dist.get_world_size())
        return dist.all_reduce(p.grad, async_op=True)

    def _make_hook(self):
        def hook(p):
            self._push_pull_delay[p] -= 1
            if self._push_pull_delay[p] == 0:
                self._handles[p] = self._push_pull_grad_async(p)
        return hook

    def synchronize(self):
        for p in self._parameter_names:
            if p.requires_grad and p.grad is not None and p not in self._handles:
                self._handles[p] = self._push_pull_grad_async(p)
        for p, handle in self._handles.items():
            handle.wait()
            self._push_pull_delay[p] = self.backward_passes_per_step
        self._handles.clear()

    @contextlib.contextmanager
    def skip_synchronize(self):
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None):
        if self._should_synchronize:
            self.synchronize()
        return self._optimizer.step(closure)

    def zero_grad(self):
        for p in self._parameter_names:
            if p.grad is not None:
                p.grad.detach_().zero_()


def broadcast_parameters(model, root_rank=0):
    for t in list(model.parameters()) + list(model.buffers()):
        dist.broadcast(t.data, root_rank)


def train(model, criterion, loader, args: types.SimpleNamespace):
    broadcast_parameters(model)
    optimizer = _DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9), model.named_parameters()
    )
    for epoch in range(args.epochs):
        for data, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(data.cuda()), target.cuda())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            with optimizer.skip_synchronize():
                optimizer.step()
            optimizer.synchronize()
