import torch


class BatchStager:
    """Puts requests into the inputs of the smallest graph that holds them."""

    def __init__(self, graphs, width):
        self.graphs = graphs
        self.sizes = sorted(graphs)
        self.up = torch.cuda.Stream()
        top = self.sizes[-1]
        self.host_x = torch.empty(top, width, dtype=torch.float16, pin_memory=True)
        self.host_pos = torch.empty(top, dtype=torch.int64, pin_memory=True)

    def pick(self, n):
        for size in self.sizes:
            if size >= n:
                return self.graphs[size]
        raise ValueError(f"no graph for {n} requests")

    def stage(self, requests):
        n = len(requests)
        g = self.pick(n)
        self.up.synchronize()
        for i, (vec, pos) in enumerate(requests):
            self.host_x[i] = vec
            self.host_pos[i] = pos
        self.up.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.up):
            g.x[:n].copy_(self.host_x[:n], non_blocking=True)
            g.pos[:n].copy_(self.host_pos[:n], non_blocking=True)
        return g, n

    def waste(self, n):
        """Share of rows of the chosen graph that carry no request."""
        for size in self.sizes:
            if size >= n:
                return (size - n) / size
        return 0.0

    @property
    def largest(self):
        return self.sizes[-1]
