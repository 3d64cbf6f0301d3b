import torch
import torch.nn as nn


class RotaryRunner:
    """Replays one captured decode step for a fixed batch size."""

    def __init__(self, model, batch_size, max_pos=4096, dim=128):
        self.model = model
        self.batch_size = batch_size
        angles = torch.arange(max_pos, device="cuda")[:, None] / 10000 ** (
            torch.arange(dim, device="cuda") / dim
        )
        self.cos_table = angles.cos()
        self.ids = torch.zeros(batch_size, dtype=torch.long, device="cuda")
        self.cos = self.cos_table[torch.zeros(batch_size, dtype=torch.long, device="cuda")]
        self.graph = None
        self.out = None

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.model(self.ids, self.cos)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.ids, self.cos)

    def _prepare(self, ids, positions):
        self.ids = ids
        self.cos = self.cos_table[positions]

    def decode(self, ids, positions):
        self._prepare(ids, positions)
        self.graph.replay()
        return self.out.argmax(-1)


class Block(nn.Module):
    def __init__(self, vocab=5000, dim=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, cos):
        return self.head(self.emb(ids) * cos)


@torch.inference_mode()
def main():
    runner = RotaryRunner(Block().cuda(), 8)
    runner.capture()
    ids = torch.randint(0, 5000, (8,), device="cuda")
    for step in range(16):
        ids = runner.decode(ids, torch.full((8,), step, device="cuda"))
    print(ids.tolist())


if __name__ == "__main__":
    main()
