import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class CompressState:
    """Process group and error feedback of the compression hook."""

    def __init__(self, group, warmup_steps):
        self.group = group
        self.world = dist.get_world_size(group)
        self.warmup_steps = warmup_steps
        self.step = 0
        self.residuals = {}

    def maybe_advance(self, bucket):
        if bucket.is_last():
            self.step += 1


def _average(state, fut, buffer):
    result = fut.value()
    result = result[0] if isinstance(result, (list, tuple)) else result
    return buffer.copy_(result)


def allreduce_hook(state, bucket):
    buffer = bucket.buffer()
    buffer.div_(state.world)
    work = dist.all_reduce(buffer, group=state.group, async_op=True)
    return work.get_future().then(lambda fut: fut.value()[0])


def bf16_error_feedback_hook(state, bucket):
    """Sends the gradients as bf16 and adds what was cut off to the next step."""
    if state.step < state.warmup_steps:
        state.maybe_advance(bucket)
        return allreduce_hook(state, bucket)
    buffer = bucket.buffer()
    index = bucket.index()
    residual = state.residuals.get(index)
    if residual is None or residual.numel() != buffer.numel():
        residual = torch.zeros_like(buffer)
        state.residuals[index] = residual
    buffer.add_(residual)
    compressed = buffer.to(torch.bfloat16)
    torch.sub(buffer, compressed, out=residual)
    compressed.div_(state.world)
    work = dist.all_reduce(compressed, group=state.group, async_op=True)
    state.maybe_advance(bucket)
    return work.get_future().then(lambda fut: _average(state, fut, buffer))


class Net(torch.nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.body = torch.nn.Sequential(
            *[
                torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU())
                for _ in range(depth)
            ]
        )
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x))


def main(loader, width=4096, depth=16, classes=1000, lr=0.1):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    model = DistributedDataParallel(Net(width, depth, classes).to(device), device_ids=[device.index])
    state = CompressState(dist.group.WORLD, warmup_steps=2)
    model.register_comm_hook(state, bf16_error_feedback_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    total = torch.zeros((), device=device)
    for x, y in loader:
        x = x.pin_memory().to(device, non_blocking=True)
        y = y.pin_memory().to(device, non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item()
