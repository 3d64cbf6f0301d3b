import torch


class EventOverlap:
    def __init__(self, event=None):
        self.event = event

    @staticmethod
    def capture():
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream())
        return EventOverlap(event)

    def current_stream_wait(self):
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class Buffer:
    def __init__(self, hidden, num_max_tokens, device="cuda"):
        self.hidden = hidden
        self.num_max_tokens = num_max_tokens
        self.device = torch.device(device)
        self.comm_stream = torch.cuda.Stream(self.device)

    def combine(self, x, token_idx, topk_weights, num_tokens, previous_event, async_finish=False):
        combined_x = torch.zeros((num_tokens, self.hidden), dtype=x.dtype, device=self.device)
        if previous_event is not None:
            self.comm_stream.wait_event(previous_event.event)
        else:
            self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            weighted = x * topk_weights.unsqueeze(-1).to(x.dtype)
            combined_x.index_add_(0, token_idx, weighted)
        for t in (x, token_idx, topk_weights, combined_x):
            t.record_stream(self.comm_stream)
        event = torch.cuda.Event()
        event.record(self.comm_stream)
        if not async_finish:
            torch.cuda.current_stream().wait_event(event)
        return combined_x, EventOverlap(event)


class MoELayer(torch.nn.Module):
    def __init__(self, experts, gate, buffer):
        super().__init__()
        self.experts = torch.nn.ModuleList(experts)
        self.gate = gate
        self.buffer = buffer

    def forward(self, hidden, shared):
        weights, ids = self.gate(hidden).softmax(-1).topk(1, dim=-1)
        order = torch.argsort(ids.view(-1))
        counts = torch.bincount(ids.view(-1), minlength=len(self.experts)).tolist()
        chunks = hidden[order].split(counts)
        x = torch.cat([e(c) for e, c in zip(self.experts, chunks)])
        w = weights.view(-1)[order]
        previous = EventOverlap.capture()
        combined, event = self.buffer.combine(
            x, order, w, hidden.shape[0], previous, async_finish=True
        )
        y = shared(hidden)
        event.current_stream_wait()
        return combined + y
