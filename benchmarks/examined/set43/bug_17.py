import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Comm:
    stream = None

    @classmethod
    def get(cls) -> torch.cuda.Stream:
        if cls.stream is None:
            cls.stream = torch.cuda.Stream()
        return cls.stream


def exchange(x: torch.Tensor, group) -> torch.Tensor:
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x, group=group)
    return out


class Dispatch(torch.autograd.Function):
    """Permutes tokens by expert and swaps equal splits between ranks."""

    @staticmethod
    def forward(ctx, x, order, group):
        comm = Comm.get()
        current = torch.cuda.current_stream()
        comm.wait_stream(current)
        with torch.cuda.stream(comm):
            sent = x.index_select(0, order)
            out = exchange(sent, group)
        current.wait_stream(comm)
        x.record_stream(comm)
        order.record_stream(comm)
        out.record_stream(current)
        ctx.save_for_backward(order)
        ctx.group = group
        ctx.scale = 1.0 / dist.get_world_size(group)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (order,) = ctx.saved_tensors
        comm = Comm.get()
        current = torch.cuda.current_stream()
        grad_output = grad_output * ctx.scale
        with torch.cuda.stream(comm):
            returned = exchange(grad_output, ctx.group)
            grad_x = torch.empty_like(returned)
            grad_x.index_copy_(0, order, returned)
        current.wait_stream(comm)
        grad_output.record_stream(comm)
        order.record_stream(comm)
        grad_x.record_stream(current)
        return grad_x, None, None


class ExpertParallel(nn.Module):
    def __init__(self, width: int, group=None):
        super().__init__()
        self.group = group
        self.pre = nn.Linear(width, width)
        self.expert = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.post = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.pre(x)
        order = torch.argsort(h.detach()[:, 0])
        tokens = Dispatch.apply(h, order, self.group)
        return self.post(self.expert(tokens))


def train(model: nn.Module, steps: int, rows: int, width: int, device):
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(rows, width, device=device)
        loss = model(x).square().mean()
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        opt.step()
        if dist.get_rank() == 0:
            print(step, loss.item())


def main():
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(dist.get_rank())
    width = 1024
    model = ExpertParallel(width).to(device)
    train(model, steps=10, rows=1024 * dist.get_world_size(), width=width, device=device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
