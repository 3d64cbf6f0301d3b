from collections import deque

import torch
import torch.distributed as dist


class PendingSendTracker:
    """Owns sent activations until their transport reports completion."""

    def __init__(self):
        self.pending = deque()

    def add(self, works, tensors):
        self.pending.append((works, tensors))

    def poll(self):
        still = deque()
        for works, tensors in self.pending:
            if all(w.is_completed() for w in works):
                for w in works:
                    w.wait()
            else:
                still.append((works, tensors))
        self.pending = still

    def drain(self):
        while self.pending:
            works, _ = self.pending.popleft()
            for w in works:
                w.wait()


class PipelineStage:
    def __init__(self, module, rank, world, act_shape, device):
        self.module = module.to(device)
        self.rank, self.world = rank, world
        self.device = device
        self.act_shape = act_shape
        self.sends = PendingSendTracker()
        self.saved = {}

    def _recv(self, src):
        buf = torch.empty(self.act_shape, device=self.device)
        works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, buf, src)])
        return buf, works

    def _send(self, t, dst):
        t = t.contiguous()
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, t, dst)])
        self.sends.add(works, [t])

    def forward(self, mb, first_input=None):
        if self.rank == 0:
            x = first_input
        else:
            x, works = self._recv(self.rank - 1)
            for w in works:
                w.wait()
            x.requires_grad_(True)
        y = self.module(x)
        self.saved[mb] = (x, y)
        if self.rank < self.world - 1:
            self._send(y.detach(), self.rank + 1)
        return y

    def backward(self, mb, loss=None):
        x, y = self.saved.pop(mb)
        if self.rank == self.world - 1:
            loss.backward()
        else:
            grad, works = self._recv(self.rank + 1)
            for w in works:
                w.wait()
            y.backward(grad)
        if self.rank > 0:
            self._send(x.grad, self.rank - 1)


def gpipe_step(stage, microbatches, targets, opt):
    losses = {}
    for mb, x in enumerate(microbatches):
        y = stage.forward(mb, x if stage.rank == 0 else None)
        if stage.rank == stage.world - 1:
            losses[mb] = torch.nn.functional.mse_loss(y, targets[mb]) / len(microbatches)
        stage.sends.poll()
    for mb in range(len(microbatches)):
        stage.backward(mb, losses.get(mb))
        stage.sends.poll()
    stage.sends.drain()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return sum(l.item() for l in losses.values()) if losses else None
