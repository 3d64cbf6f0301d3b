"""Optimizer wrapper that keeps state in reused pinned host buffers between steps."""
import torch


class CPUOffloadOptimizer:
    def __init__(self, optimizer, pin_memory=True):
        self.optimizer = optimizer
        self.pin_memory = pin_memory
        self._host = {}
        self._initialized = False

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def _host_buffer(self, key, value):
        buf = self._host.get(key)
        if buf is None or buf.shape != value.shape or buf.dtype != value.dtype:
            buf = torch.empty(value.shape, dtype=value.dtype, pin_memory=self.pin_memory)
            self._host[key] = buf
        return buf

    def _tensors(self):
        for p, state in self.optimizer.state.items():
            for name, value in state.items():
                if torch.is_tensor(value) and value.dim() > 0:
                    yield p, name, value, state

    def _to_cpu(self):
        moved = False
        for p, name, value, state in list(self._tensors()):
            if not value.is_cuda:
                continue
            buf = self._host_buffer((p, name), value)
            buf.copy_(value, non_blocking=self.pin_memory)
            state[name] = buf
            moved = True
        if moved and self.pin_memory:
            torch.cuda.synchronize()

    def _to_gpu(self):
        for p, name, value, state in list(self._tensors()):
            if not value.is_cuda:
                state[name] = value.to(p.device, non_blocking=True)

    def step(self, closure=None):
        if self._initialized:
            self._to_gpu()
        loss = self.optimizer.step(closure)
        self._to_cpu()
        self._initialized = True
        return loss

    def state_dict(self):
        return self.optimizer.state_dict()

    def norms(self):
        return {
            (id(p), name): value.float().norm().item()
            for p, name, value, _ in self._tensors()
        }


def train(model, batches, path, save_every=100):
    opt = CPUOffloadOptimizer(torch.optim.AdamW(model.parameters(), lr=3e-4))
    for i, batch in enumerate(batches, 1):
        loss = model(batch.cuda(non_blocking=True)).float().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if i % save_every == 0:
            torch.save({"optimizer": opt.state_dict(), "norms": opt.norms()}, f"{path}/step_{i}.pt")
