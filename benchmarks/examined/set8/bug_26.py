import torch


class BackendScheduler:
    """Pipelines graph inputs through n_copies staging slots."""

    def __init__(self, graph, n_tokens, n_copies=4, device="cuda"):
        self.graph = graph
        self.n_copies = n_copies
        self.device = torch.device(device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.compute_stream = torch.cuda.Stream(self.device)
        self.staging = [
            torch.zeros(2, n_tokens, dtype=torch.int32, pin_memory=True) for _ in range(n_copies)
        ]
        self.inputs = [
            torch.zeros(2, n_tokens, dtype=torch.int32, device=self.device) for _ in range(n_copies)
        ]
        self.events = [torch.cuda.Event() for _ in range(n_copies)]
        self.consumed = [torch.cuda.Event() for _ in range(n_copies)]
        self.cur_copy = 0
        torch.cuda.synchronize(self.device)

    def set_inputs(self, tokens, positions):
        slot = self.cur_copy
        stage = self.staging[slot]
        n = tokens.shape[0]
        stage[0, :n] = tokens
        stage[1, :n] = positions
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(self.consumed[slot])
            self.inputs[slot].copy_(stage, non_blocking=True)
            self.events[slot].record(self.copy_stream)
        return slot, n

    def graph_compute_async(self, tokens, positions, out):
        slot, n = self.set_inputs(tokens, positions)
        with torch.cuda.stream(self.compute_stream):
            self.compute_stream.wait_event(self.events[slot])
            self.graph(self.inputs[slot][:, :n], out)
            self.consumed[slot].record(self.compute_stream)
        self.cur_copy = (self.cur_copy + 1) % self.n_copies

    def synchronize(self):
        self.compute_stream.synchronize()


class PromptProcessor:

    def __init__(self, sched, n_ubatch, n_embd):
        self.sched = sched
        self.n_ubatch = n_ubatch
        self.n_embd = n_embd

    def decode(self, prompt):
        n = prompt.shape[0]
        embd = torch.empty(n, self.n_embd, device=self.sched.device)
        self.sched.compute_stream.wait_stream(torch.cuda.current_stream(self.sched.device))
        for start in range(0, n, self.n_ubatch):
            part = prompt[start:start + self.n_ubatch]
            pos = torch.arange(start, start + part.shape[0], dtype=torch.int32)
            self.sched.graph_compute_async(part, pos, embd[start:start + part.shape[0]])
        self.sched.synchronize()
        return embd
