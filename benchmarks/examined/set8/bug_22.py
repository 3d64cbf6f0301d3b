import torch
from torch.distributed.tensor import DTensor


class CPUOffloadOptimizer:
    """Keeps the optimizer state in host memory between steps."""

    def __init__(self, optimizer, compact=True):
        self.optimizer = optimizer
        self.compact = compact
        self._initialized = False

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def _to_host(self, local):
        host = local.to("cpu", non_blocking=True)
        if self.compact and host.dtype == torch.float32 and host.numel() > 1:
            host = host.to(torch.bfloat16)
        return host

    def _to_device(self, local):
        dev = local.to("cuda", non_blocking=True)
        return dev.float() if dev.dtype == torch.bfloat16 else dev

    def _move_states(self, device):
        for p in self.optimizer.state:
            state = self.optimizer.state[p]
            for k, v in state.items():
                if isinstance(v, DTensor):
                    local_tensor = v._local_tensor
                    if device == "cpu":
                        new_local = self._to_host(local_tensor)
                    else:
                        new_local = self._to_device(local_tensor)
                    v._local_tensor = new_local
                elif isinstance(v, torch.Tensor) and v.dim() > 0:
                    if device == "cpu":
                        state[k] = self._to_host(v)
                    else:
                        state[k] = self._to_device(v)
        torch.cuda.synchronize()

    def step(self, closure=None):
        if self._initialized:
            self._move_states("cuda")
        self.optimizer.step(closure)
        self._move_states("cpu")
        self._initialized = True

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def state_dict(self):
        return self.optimizer.state_dict()


def setup_optimizer(model, lr, weight_decay, offload):
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    return CPUOffloadOptimizer(opt) if offload else opt


def train(model, batches, loss_fn, lr=1e-4):
    opt = setup_optimizer(model, lr, 0.1, offload=True)
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
    return opt.state_dict()
