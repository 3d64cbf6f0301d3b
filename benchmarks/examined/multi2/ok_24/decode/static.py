import torch


class StaticStep:
    """One decoding step at a fixed number of rows."""

    def __init__(self, fn, rows, dim, pool, stream):
        self.rows = rows
        self.stream = stream
        self.state = torch.zeros(rows, dim, device="cuda")
        self.token = torch.zeros(rows, dtype=torch.long, device="cuda")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            fn(self.token, self.state)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool, stream=stream):
            self.next_token, self.next_state = fn(self.token, self.state)

    def __call__(self, token, state):
        n = len(token)
        self.token[:n].copy_(token)
        self.state[:n].copy_(state)
        self.graph.replay()
        return self.next_token[:n].clone(), self.next_state[:n].clone()

    @property
    def static_bytes(self):
        kept = (self.token, self.state, self.next_token, self.next_state)
        return sum(t.numel() * t.element_size() for t in kept)

    def __repr__(self):
        return f"StaticStep(rows={self.rows}, {self.static_bytes / 2 ** 10:.0f} KiB)"
