import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab=8192, dim=512, max_len=256):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.position = nn.Embedding(max_len, dim)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, positions, mask):
        x = self.embed(ids) + self.position(positions)
        x = x + torch.tanh(self.mix(x)) * mask.unsqueeze(-1)
        return self.head(x)


class GraphRunner:
    """One captured graph per batch size; inputs are fixed, outputs are copied out."""

    def __init__(self, model: nn.Module, sizes, device: torch.device):
        self.model = model.eval()
        self.sizes = sorted(sizes)
        largest = self.sizes[-1]
        self.ids = torch.zeros(largest, dtype=torch.int64, device=device)
        self.positions = torch.zeros(largest, dtype=torch.int64, device=device)
        self.mask = torch.ones(largest, device=device)

        self.stage = [
            {
                "ids": torch.zeros(largest, dtype=torch.int64, pin_memory=True),
                "positions": torch.zeros(largest, dtype=torch.int64, pin_memory=True),
                "mask": torch.ones(largest, pin_memory=True),
                "copied": torch.cuda.Event(),
            }
            for _ in range(2)
        ]
        self.turn = 0
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.outputs: dict[int, torch.Tensor] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self._capture()

    def _inputs(self, size):
        return self.ids[:size], self.positions[:size], self.mask[:size]

    @torch.no_grad()
    def _capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(*self._inputs(self.sizes[-1]))
        torch.cuda.current_stream().wait_stream(side)
        for size in reversed(self.sizes):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.outputs[size] = self.model(*self._inputs(size))
            self.graphs[size] = graph

    def _upload(self, ids, positions, mask):
        row = self.stage[self.turn]
        self.turn = (self.turn + 1) % len(self.stage)
        n = len(ids)
        row["copied"].synchronize()
        row["ids"][:n] = torch.as_tensor(ids)
        row["positions"][:n] = torch.as_tensor(positions)
        row["mask"][:n] = torch.as_tensor(mask)
        self.ids[:n].copy_(row["ids"][:n], non_blocking=True)
        self.positions[:n].copy_(row["positions"][:n], non_blocking=True)
        self.mask[:n].copy_(row["mask"][:n], non_blocking=True)
        row["copied"].record()

    @torch.no_grad()
    def run(self, ids, positions, mask) -> torch.Tensor:
        n = len(ids)
        size = next(s for s in self.sizes if s >= n)
        self._upload(ids, positions, mask)
        self.graphs[size].replay()
        return self.outputs[size][:n].clone()


def decode(runner: GraphRunner, prompts: list[int], steps: int):
    history = []
    ids = list(prompts)
    for step in range(steps):
        active = max(1, len(ids) - step // 8)
        ids = ids[:active]
        logits = runner.run(ids, [step] * active, [1.0] * active)
        history.append(logits)
        ids = logits.argmax(dim=-1).tolist()
    return history


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    runner = GraphRunner(Decoder().to(device), sizes=(1, 2, 4, 8, 16), device=device)
    history = decode(runner, list(range(12)), steps=64)
    confidence = torch.stack([h.softmax(-1).amax(-1).mean() for h in history])
    print(confidence.mean().item())


if __name__ == "__main__":
    main()
