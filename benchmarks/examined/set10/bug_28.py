import functools

import numpy as np
import torch


class HostStaging:
    """Pinned scratch memory for small host to device copies, keyed by owner."""

    def __init__(self):
        self._slots = {}

    def get(self, key, shape, dtype):
        slot = self._slots.get(key)
        if slot is None or slot.shape != torch.Size(shape) or slot.dtype != dtype:
            slot = torch.empty(shape, dtype=dtype, pin_memory=True)
            self._slots[key] = slot
        return slot


STAGING = HostStaging()


def unsafe_copyto(dst, src, key):
    src = torch.as_tensor(np.ascontiguousarray(src), dtype=dst.dtype)
    slot = STAGING.get(key, src.shape, src.dtype)
    slot.copy_(src)
    dst.copy_(slot, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return dst


class Coefficients:
    """Stencil coefficients that live on the device."""

    def __init__(self, order, device="cuda"):
        self.order = order
        self.values = torch.empty(2 * order + 1, device=device)

    def refresh(self, dt):
        k = np.arange(-self.order, self.order + 1)
        w = np.exp(-(k**2) / (2.0 * max(dt, 1e-6)))
        return unsafe_copyto(self.values, w / w.sum(), id(self))


def captured(func):
    """Records the call into a graph the first time and launches the graph afterwards."""
    state = {}

    @functools.wraps(func)
    def wrapper(*args):
        if "graph" not in state:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                state["result"] = func(*args)
            state["graph"] = graph
        state["graph"].replay()
        return state["result"]

    return wrapper


class Diffusion:
    def __init__(self, field, order=3, dt=0.5):
        self.field = torch.as_tensor(field, dtype=torch.float32).cuda()
        self.coeffs = Coefficients(order)
        self.dt = dt
        self.step = captured(self._step)
        self._smooth(self.field)
        torch.cuda.synchronize()

    def _smooth(self, x):
        w = self.coeffs.refresh(self.dt).view(1, 1, -1)
        return torch.nn.functional.conv1d(x.view(1, 1, -1), w, padding=self.coeffs.order).view(-1)

    def _step(self):
        self.field.copy_(self._smooth(self.field))
        return self.field

    def run(self, steps):
        for _ in range(steps):
            self.step()
        return self.field.cpu().numpy()
