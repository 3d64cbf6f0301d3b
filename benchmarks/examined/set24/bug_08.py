import torch
import torch.distributed as dist
import torch.nn as nn


def _all_reduce(tensor, group, async_op=False):
    return dist.all_reduce(tensor, group=group, async_op=async_op)


class CommAction:
    def __init__(self, group, kind="hook"):
        self.group = group
        self.kind = kind


class ShardedLinear(nn.Module):
    """Column shard whose bias is replicated; the bias gradient is reduced in a hook."""

    def __init__(self, in_f, out_f, group):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_f, in_f))
        self.bias = nn.Parameter(torch.zeros(out_f))
        nn.init.xavier_uniform_(self.weight)
        self.comm_actions = {"weight": CommAction(group), "bias": CommAction(group)}

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)


def _module_params_sharding(model, reduction_stream):
    """Register a gradient hook for every parameter that carries a communication action."""

    def wrapper(param, action):
        def hook_fn(grad):
            with torch.cuda.stream(reduction_stream):
                _all_reduce(grad, action.group, async_op=False)
            grad.record_stream(reduction_stream)
            return grad

        param.register_hook(hook_fn)

    for module in model.modules():
        actions = getattr(module, "comm_actions", None)
        if actions is None:
            continue
        for name, param in module.named_parameters(recurse=False):
            action = actions.get(name)
            if action is not None and action.kind == "hook":
                wrapper(param, action)


class ShardedTrainer:
    def __init__(self, model, lr, device):
        self.model = model.to(device)
        self.reduction_stream = torch.cuda.Stream(device)
        _module_params_sharding(self.model, self.reduction_stream)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.device = device

    def train_step(self, ids, labels):
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(ids.to(self.device))
        loss = nn.functional.cross_entropy(logits, labels.to(self.device))
        loss.backward()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)
        self.optimizer.step()
        return loss.detach()


def main(loader, lr=1e-3):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    group = dist.group.WORLD
    model = nn.Sequential(
        ShardedLinear(1024, 4096, group), nn.GELU(), ShardedLinear(4096, 1000, group)
    )
    trainer = ShardedTrainer(model, lr, device)
    for step, (x, y) in enumerate(loader):
        loss = trainer.train_step(x, y)
        if step % 100 == 0:
            print(step, loss.item())
