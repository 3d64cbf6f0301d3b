"""Expert-parallel token exchange: a small ring of receive buffers, dispatch and combine overlap."""
import torch
import torch.distributed as dist
import torch.nn as nn


class Handle:
    def __init__(self, tokens, event):
        self.tokens = tokens
        self.event = event

    def wait(self):
        torch.cuda.current_stream().wait_event(self.event)
        return self.tokens


class TokenExchange:
    def __init__(self, tokens, hidden, groups, slots=2, device="cuda"):
        self.dispatch_group, self.combine_group = groups
        self.dispatch_stream = torch.cuda.Stream(device)
        self.combine_stream = torch.cuda.Stream(device)
        self.recv = [torch.empty(tokens, hidden, device=device) for _ in range(slots)]
        self.next = 0
        torch.cuda.synchronize()

    def dispatch(self, x, previous_event):
        buf = self.recv[self.next % len(self.recv)]
        self.next += 1
        self.dispatch_stream.wait_event(previous_event)
        with torch.cuda.stream(self.dispatch_stream):
            dist.all_to_all_single(buf, x, group=self.dispatch_group)
            event = self.dispatch_stream.record_event()
        x.record_stream(self.dispatch_stream)
        return Handle(buf, event)

    def combine(self, y):
        out = torch.empty_like(y)
        self.combine_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.combine_stream):
            dist.all_to_all_single(out, y, group=self.combine_group)
            event = self.combine_stream.record_event()
        y.record_stream(self.combine_stream)
        out.record_stream(self.combine_stream)
        return Handle(out, event)


class OverlappedExperts(nn.Module):
    def __init__(self, tokens, hidden, groups, device="cuda"):
        super().__init__()
        self.gate = nn.Linear(hidden, hidden, device=device)
        self.expert = nn.Sequential(
            nn.Linear(hidden, 4 * hidden, device=device), nn.GELU(),
            nn.Linear(4 * hidden, hidden, device=device))
        self.exchange = TokenExchange(tokens, hidden, groups, device=device)

    @torch.inference_mode()
    def forward(self, micro_batches):
        gated = []
        for x in micro_batches:
            g = self.gate(x)
            gated.append((g, torch.cuda.current_stream().record_event()))

        outputs = []
        pending = [self.exchange.dispatch(*gated[0])]
        for i in range(len(gated)):
            if i + 1 < len(gated):
                pending.append(self.exchange.dispatch(*gated[i + 1]))
            y = self.expert(pending[i].wait())
            outputs.append(self.exchange.combine(y))
        return torch.stack([h.wait() for h in outputs])
