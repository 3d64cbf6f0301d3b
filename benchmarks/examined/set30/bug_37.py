"""Windowed gated scan: a preparation stream runs ahead of the recurrence."""
import torch


class WindowWorkspace:
    def __init__(self, window, heads, dim, device):
        self.keys = torch.empty(window, heads, dim, device=device)
        self.decay = torch.empty(window, heads, 1, device=device)
        self.ready = torch.cuda.Event()


class GatedScan:
    def __init__(self, window, heads, dim, device="cuda"):
        self.window = window
        self.device = torch.device(device)
        self.prep = torch.cuda.Stream(self.device, priority=-1)
        self.ring = [WindowWorkspace(window, heads, dim, self.device) for _ in range(2)]

    def _prepare(self, slot, k, g):
        ws = self.ring[slot]
        n = k.shape[0]
        with torch.cuda.stream(self.prep):
            ws.keys[:n].copy_(torch.nn.functional.normalize(k.float(), dim=-1))
            ws.decay[:n].copy_(torch.sigmoid(g.float()).unsqueeze(-1))
            ws.ready.record(self.prep)

    def _recur(self, slot, state, q, v, out):
        ws = self.ring[slot]
        torch.cuda.current_stream(self.device).wait_event(ws.ready)
        for t in range(q.shape[0]):
            k, d = ws.keys[t], ws.decay[t]
            state.mul_(d.unsqueeze(-1)).add_(k.unsqueeze(-1) * v[t].unsqueeze(-2))
            out[t] = torch.einsum("hd,hde->he", q[t].float(), state)

    @torch.inference_mode()
    def __call__(self, q, k, v, g):
        heads, dim = k.shape[1:]
        state = torch.zeros(heads, dim, v.shape[-1], device=self.device)
        out = torch.empty(v.shape, device=self.device)
        main = torch.cuda.current_stream(self.device)
        self.prep.wait_stream(main)
        starts = list(range(0, q.shape[0], self.window))
        spans = [slice(s, min(s + self.window, q.shape[0])) for s in starts]
        self._prepare(0, k[spans[0]], g[spans[0]])
        for i, span in enumerate(spans):
            if i + 1 < len(spans):
                nxt = spans[i + 1]
                self._prepare((i + 1) % 2, k[nxt], g[nxt])
            self._recur(i % 2, state, q[span], v[span].float(), out[span])
        main.wait_stream(self.prep)
        return out


def prefill(tokens=4096, heads=16, dim=128, window=256):
    scan = GatedScan(window, heads, dim)
    shape = (tokens, heads, dim)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    g = torch.randn(tokens, heads, device="cuda", dtype=torch.bfloat16)
    return scan(q, k, v, g)
