import torch


class StateSlot:
    def __init__(self, numel, device):
        self.exp_avg = torch.empty(numel, device=device)
        self.exp_avg_sq = torch.empty(numel, device=device)
        self.master = torch.empty(numel, device=device)
        self.ready = torch.cuda.Event()
        self.updated = torch.cuda.Event()
        self.drained = torch.cuda.Event()


class HostState:
    def __init__(self, param):
        n = param.numel()
        self.exp_avg = torch.zeros(n).pin_memory()
        self.exp_avg_sq = torch.zeros(n).pin_memory()
        self.master = param.detach().float().flatten().cpu().pin_memory()


class CPUStagedAdamW:
    """AdamW whose fp32 state is authoritative on the host and streamed through few GPU slots."""

    def __init__(self, params, lr, num_slots=3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1):
        self.params = list(params)
        self.lr, self.betas, self.eps, self.wd = lr, betas, eps, weight_decay
        device = self.params[0].device
        widest = max(p.numel() for p in self.params)
        self.h2d = torch.cuda.Stream(device)
        self.d2h = torch.cuda.Stream(device)
        self.slots = [StateSlot(widest, device) for _ in range(num_slots)]
        self.state = [HostState(p) for p in self.params]
        self.t = 0
        torch.cuda.synchronize(device)

    def _load(self, i):
        slot = self.slots[i % len(self.slots)]
        st, n = self.state[i], self.params[i].numel()
        with torch.cuda.stream(self.h2d):
            self.h2d.wait_event(slot.drained)
            slot.exp_avg[:n].copy_(st.exp_avg, non_blocking=True)
            slot.exp_avg_sq[:n].copy_(st.exp_avg_sq, non_blocking=True)
            slot.master[:n].copy_(st.master, non_blocking=True)
            slot.ready.record(self.h2d)

    def _update(self, i, compute):
        slot = self.slots[i % len(self.slots)]
        p = self.params[i]
        n = p.numel()
        compute.wait_event(slot.ready)
        b1, b2 = self.betas
        g = p.grad.float().flatten()
        m, v, w = slot.exp_avg[:n], slot.exp_avg_sq[:n], slot.master[:n]
        m.mul_(b1).add_(g, alpha=1 - b1)
        v.mul_(b2).addcmul_(g, g, value=1 - b2)
        denom = (v / (1 - b2 ** self.t)).sqrt_().add_(self.eps)
        w.mul_(1 - self.lr * self.wd).addcdiv_(m, denom, value=-self.lr / (1 - b1 ** self.t))
        p.copy_(w.view_as(p))
        slot.updated.record(compute)

    def _store(self, i):
        slot = self.slots[i % len(self.slots)]
        st, n = self.state[i], self.params[i].numel()
        with torch.cuda.stream(self.d2h):
            self.d2h.wait_event(slot.updated)
            st.exp_avg.copy_(slot.exp_avg[:n], non_blocking=True)
            st.exp_avg_sq.copy_(slot.exp_avg_sq[:n], non_blocking=True)
            st.master.copy_(slot.master[:n], non_blocking=True)
            slot.drained.record(self.d2h)

    @torch.no_grad()
    def step(self):
        self.t += 1
        compute = torch.cuda.current_stream()
        self.h2d.wait_stream(self.d2h)
        depth = len(self.slots) - 1
        for i in range(min(depth, len(self.params))):
            self._load(i)
        for i in range(len(self.params)):
            self._update(i, compute)
            self._store(i)
            if i + depth < len(self.params):
                self._load(i + depth)

    def state_dict(self):
        self.d2h.synchronize()
        return [
            {"m": s.exp_avg.clone(), "v": s.exp_avg_sq.clone(), "w": s.master.clone()}
            for s in self.state
        ]
