"""One-forward-one-backward step in which the boundary exchange has its own stream."""
import torch
import torch.distributed as dist
import torch.nn as nn


class Boundary:
    def __init__(self, prev_rank, next_rank, shape, device):
        self.prev_rank, self.next_rank = prev_rank, next_rank
        self.shape, self.device = shape, device
        self.pp_stream = torch.cuda.Stream(device)
        self.sends = []

    def recv_act(self):
        buf = torch.empty(self.shape, device=self.device, dtype=torch.bfloat16)
        self.pp_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.pp_stream):
            dist.irecv(buf, self.prev_rank).wait()
        buf.record_stream(self.pp_stream)
        return buf

    def recv_grad(self):
        buf = torch.empty(self.shape, device=self.device, dtype=torch.bfloat16)
        self.pp_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.pp_stream):
            dist.irecv(buf, self.next_rank).wait()
        buf.record_stream(self.pp_stream)
        return buf

    def send_back(self, dx):
        with torch.cuda.stream(self.pp_stream):
            work = dist.isend(dx, self.prev_rank)
        self.sends.append((work, dx))

    def join(self):
        torch.cuda.current_stream(self.device).wait_stream(self.pp_stream)

    def flush(self):
        for work, _ in self.sends:
            work.wait()
        self.sends.clear()


class Layer(nn.Module):
    """Linear layer whose weight gradient is computed apart from its input gradient."""

    def __init__(self, dim, device):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim, device=device, dtype=torch.bfloat16) * 0.02)
        self.weight.grad = torch.zeros_like(self.weight)

    def run_forward(self, x):
        return x @ self.weight.t()

    def backward_dx(self, grad):
        return grad @ self.weight

    def backward_dw(self, x, grad):
        self.weight.grad.addmm_(grad.flatten(0, -2).t(), x.flatten(0, -2))


class Stage:
    def __init__(self, dim, boundary, device):
        self.layer = Layer(dim, device)
        self.boundary = boundary
        self.saved = {}

    @torch.no_grad()
    def forward_backward(self, fwd_id, bwd_id):
        act = self.boundary.recv_act()
        grad = self.boundary.recv_grad()
        self.boundary.join()
        x = self.saved.pop(bwd_id)
        dx = self.layer.backward_dx(grad)
        self.boundary.send_back(dx)
        self.layer.backward_dw(x, grad)
        self.saved[fwd_id] = act
        return self.layer.run_forward(act)


def steady_state(stage, first, count):
    outs = []
    for i in range(first, first + count):
        outs.append(stage.forward_backward(i + 1, i))
    stage.boundary.flush()
    return outs
