"""A chain of CUDA graphs with one memory pool."""
import torch


class GraphChain:
    """Captures the stages one after the other and replays the whole chain."""

    def __init__(self, stages, example, warmup=3):
        self.stages = torch.nn.ModuleList(stages)
        self.pool = torch.cuda.graph_pool_handle()
        self.static = example.clone()
        self.graphs, self.buffers = [], [self.static]
        self._warm(warmup)
        for stage in self.stages:
            graph = torch.cuda.CUDAGraph()
            with torch.no_grad(), torch.cuda.graph(graph, pool=self.pool):
                self.buffers.append(stage(self.buffers[-1]))
            self.graphs.append(graph)

    @torch.no_grad()
    def _warm(self, count):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(count):
                x = self.static
                for stage in self.stages:
                    x = stage(x)
        torch.cuda.current_stream().wait_stream(side)

    @property
    def _output(self):
        return self.buffers[-1]

    def __call__(self, batch):
        n = batch.shape[0]
        if n > self.static.shape[0]:
            return torch.cat([self(part) for part in batch.split(self.static.shape[0])])
        self.static[:n].copy_(batch, non_blocking=True)
        for graph in self.graphs:
            graph.replay()
        return self._output[:n].clone()


def block(dim):
    return torch.nn.Sequential(
        torch.nn.LayerNorm(dim), torch.nn.Linear(dim, 4 * dim),
        torch.nn.GELU(), torch.nn.Linear(4 * dim, dim))


def main():
    torch.manual_seed(0)
    stages = [block(512).cuda().eval() for _ in range(4)]
    chain = GraphChain(stages, torch.zeros(64, 512, device="cuda"))
    pairs = []
    for size in (64, 10, 200, 33):
        x = torch.randn(size, 512, device="cuda")
        y = chain(x)
        with torch.no_grad():
            ref = torch.nn.Sequential(*stages)(x)
        pairs.append((y, ref))
    return [(y - ref).abs().max().item() for y, ref in pairs]


if __name__ == "__main__":
    print(main())
