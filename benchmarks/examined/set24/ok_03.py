import torch


class CPUOffloadOptimizer:
    """Keeps optimizer state in pinned host buffers between steps.

    The buffers are allocated once per (parameter, key) and refilled after each step.
    """

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self._buffers = {}
        self._initialized = False

    def _buffer_for(self, param, key, value):
        buf = self._buffers.get((param, key))
        if buf is None or buf.shape != value.shape or buf.dtype != value.dtype:
            buf = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self._buffers[(param, key)] = buf
        return buf

    def _offload(self):
        for param, state in self.optimizer.state.items():
            for key, value in state.items():
                if not torch.is_tensor(value) or value.ndim == 0 or not value.is_cuda:
                    continue
                buf = self._buffer_for(param, key, value)
                buf.copy_(value, non_blocking=True)
                state[key] = buf
        torch.cuda.synchronize()

    def _onload(self):
        for param, state in self.optimizer.state.items():
            for key, value in state.items():
                if not torch.is_tensor(value) or value.ndim == 0 or value.is_cuda:
                    continue
                state[key] = value.to(param.device, non_blocking=True)

    @torch.no_grad()
    def step(self):
        if self._initialized:
            self._onload()
        self.optimizer.step()
        self._offload()
        self._initialized = True

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def state_dict(self):
        return {
            "buffers": {
                i: {k: v.clone() for k, v in state.items() if torch.is_tensor(v)}
                for i, state in enumerate(self.optimizer.state.values())
            }
        }


def train(model, batches, lr, ckpt_every, path):
    opt = CPUOffloadOptimizer(torch.optim.AdamW(model.parameters(), lr=lr))
    for i, (x, y) in enumerate(batches):
        x = x.pin_memory().to("cuda", non_blocking=True)
        y = y.pin_memory().to("cuda", non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if i % ckpt_every == 0:
            torch.save(opt.state_dict(), f"{path}/opt_{i}.pt")
