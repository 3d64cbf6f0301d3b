import torch


class StreamOffloadManager:
    """Overlaps the copies of checkpoint inputs with compute on a side stream."""

    def __init__(self, max_inflight=2):
        self.s1 = torch.cuda.Stream()
        self.max_inflight = max_inflight
        self.reset()

    def reset(self):
        self.next_id = 0
        self.inflight = {}
        self.cpu = {}
        self.prefetched = {}

    def offload(self, t):
        self.s1.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.s1):
            cpu_t = t.detach().to("cpu", non_blocking=True)
        ev = self.s1.record_event()
        tid = self.next_id
        self.next_id += 1
        self.inflight[tid] = (t, ev)
        self.cpu[tid] = (cpu_t, t.device, t.requires_grad)
        self._reap()
        return tid

    def _reap(self):
        for tid in [k for k, (_, ev) in self.inflight.items() if ev.query()]:
            del self.inflight[tid]
        while len(self.inflight) > self.max_inflight:
            _, ev = self.inflight.pop(min(self.inflight))
            ev.synchronize()

    def _bring_back(self, tid):
        cpu_t, device, _ = self.cpu[tid]
        with torch.cuda.stream(self.s1):
            gpu_t = cpu_t.to(device, non_blocking=True)
        return gpu_t, self.s1.record_event()

    def restore(self, tid):
        gpu_t, ev = self.prefetched.pop(tid, None) or self._bring_back(tid)
        nxt = tid - 1
        if nxt in self.cpu and nxt not in self.prefetched:
            self.prefetched[nxt] = self._bring_back(nxt)
        torch.cuda.current_stream().wait_event(ev)
        out = gpu_t.detach().requires_grad_(self.cpu.pop(tid)[2])
        if not self.cpu:
            self.reset()
        return out


_MANAGER = None


def _get_manager():
    global _MANAGER
    if _MANAGER is None:
        _MANAGER = StreamOffloadManager()
    return _MANAGER


class HiddenStatesOffloadCheckpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run_function, hidden_states):
        ctx.run_function = run_function
        ctx.tid = _get_manager().offload(hidden_states)
        with torch.no_grad():
            return run_function(hidden_states)

    @staticmethod
    def backward(ctx, grad_output):
        hidden = _get_manager().restore(ctx.tid)
        with torch.enable_grad():
            output = ctx.run_function(hidden)
        torch.autograd.backward(output, grad_output)
        return None, hidden.grad


def forward_layers(layers, hidden_states):
    for layer in layers:
        hidden_states = HiddenStatesOffloadCheckpoint.apply(layer, hidden_states)
    return hidden_states
