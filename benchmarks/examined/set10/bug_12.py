import torch


class InputBuffers:
    def __init__(self, max_tokens, max_batch, device):
        self.host_ids = torch.zeros(max_tokens, dtype=torch.int32, pin_memory=True)
        self.host_pos = torch.zeros(max_tokens, dtype=torch.int32, pin_memory=True)
        self.host_last = torch.zeros(max_batch, dtype=torch.int64, pin_memory=True)
        self.ids = torch.empty(max_tokens, dtype=torch.int32, device=device)
        self.pos = torch.empty(max_tokens, dtype=torch.int32, device=device)
        self.last = torch.empty(max_batch, dtype=torch.int64, device=device)
        self.out = torch.empty(max_batch, dtype=torch.int64, device=device)
        self.host_out = torch.empty(max_batch, dtype=torch.int64, pin_memory=True)


class ContinuousBatchProcessor:
    """One generation step: host to device, forward and sampling, device to host."""

    def __init__(self, model, scheduler, max_tokens=8192, max_batch=512, device="cuda"):
        self.model = model
        self.scheduler = scheduler
        self.buffers = InputBuffers(max_tokens, max_batch, device)
        self.h2d_stream = torch.cuda.Stream()
        self.compute_stream = torch.cuda.Stream()
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_over = torch.cuda.Event()

    def prepare_inputs(self, requests):
        ids, pos, last = [], [], []
        for req in requests:
            ids.extend(req.next_tokens())
            pos.extend(range(req.cached, req.cached + len(req.next_tokens())))
            last.append(len(ids) - 1)
        n = len(ids)
        b = self.buffers
        b.host_ids[:n] = torch.tensor(ids, dtype=torch.int32)
        b.host_pos[:n] = torch.tensor(pos, dtype=torch.int32)
        b.host_last[: len(last)] = torch.tensor(last)
        return n, len(last)

    def transfer_inputs(self, n, n_out):
        b = self.buffers
        with torch.cuda.stream(self.h2d_stream):
            b.ids[:n].copy_(b.host_ids[:n], non_blocking=True)
            b.pos[:n].copy_(b.host_pos[:n], non_blocking=True)
            b.last[:n_out].copy_(b.host_last[:n_out], non_blocking=True)
            self.h2d_over.record(self.h2d_stream)
        self.compute_stream.wait_event(self.h2d_over)

    def compute(self, n, n_out):
        b = self.buffers
        with torch.cuda.stream(self.compute_stream):
            logits = self.model(b.ids[:n].unsqueeze(0), b.pos[:n].unsqueeze(0))[0]
            b.out[:n_out].copy_(logits[b.last[:n_out]].argmax(dim=-1))

    def retrieve(self, n_out):
        b = self.buffers
        with torch.cuda.stream(self.d2h_stream):
            b.host_out[:n_out].copy_(b.out[:n_out], non_blocking=True)
        self.d2h_stream.synchronize()
        return b.host_out[:n_out].tolist()

    @torch.inference_mode()
    def step(self):
        requests = self.scheduler.schedule()
        if not requests:
            return False
        n, n_out = self.prepare_inputs(requests)
        self.transfer_inputs(n, n_out)
        self.compute(n, n_out)
        tokens = self.retrieve(n_out)
        for req, token in zip(requests, tokens):
            req.append(token)
        return True
