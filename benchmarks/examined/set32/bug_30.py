"""Middle stage of a split network: gradients arrive quantised and are unpacked aside."""
import torch
import torch.distributed as dist
import torch.nn as nn


class GradientLink:
    def __init__(self, peer, numel, device, group):
        self.peer, self.group = peer, group
        self.recv_stream = torch.cuda.Stream(device)
        self.codes = torch.empty(numel, dtype=torch.int8, device=device)
        self.scale = torch.empty(1, dtype=torch.float32, device=device)
        torch.cuda.current_stream(device).synchronize()

    def pull(self, shape):
        with torch.cuda.stream(self.recv_stream):
            works = [
                dist.irecv(self.codes, self.peer, group=self.group),
                dist.irecv(self.scale, self.peer, group=self.group),
            ]
            for w in works:
                w.wait()
            grad = self.codes.float().mul_(self.scale).view(shape)
        grad.record_stream(torch.cuda.current_stream())
        return grad

    def push(self, grad):
        scale = grad.abs().amax().clamp_min(1e-8) / 127
        codes = (grad / scale).round().to(torch.int8).flatten()
        dist.send(codes, self.peer, group=self.group)
        dist.send(scale.view(1), self.peer, group=self.group)


class MiddleStage(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


class StageRunner:
    def __init__(self, stage, shape, upstream, downstream, device):
        self.device = torch.device(device)
        self.stage = stage.to(self.device)
        self.shape = shape
        numel = 1
        for s in shape:
            numel *= s
        self.group_down = dist.new_group([dist.get_rank(), downstream])
        self.down = GradientLink(downstream, numel, self.device, self.group_down)
        self.upstream = upstream
        self.live = []

    def forward_chunk(self, x):
        x = x.to(self.device).requires_grad_(True)
        y = self.stage(x)
        self.live.append((x, y))
        return y.detach()

    def backward_chunk(self):
        x, y = self.live.pop(0)
        grad = self.down.pull(y.shape)
        torch.autograd.backward(y, grad)
        return x.grad

    def step(self, chunks, optimizer):
        outs = [self.forward_chunk(c) for c in chunks]
        for out in outs:
            dist.send(out, self.down.peer, group=self.group_down)
        norms = []
        for _ in chunks:
            gx = self.backward_chunk()
            dist.send(gx.contiguous(), self.upstream)
            norms.append(gx.norm())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return torch.stack(norms)
