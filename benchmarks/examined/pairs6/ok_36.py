"""Token dispatch for a mixture of experts layer; the counts are needed on the host."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CountFetcher:
    def __init__(self, n_experts):
        self.host = torch.zeros(n_experts, dtype=torch.int64, pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.event = torch.cuda.Event()

    def start(self, counts):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.host.copy_(counts, non_blocking=True)
            self.event.record()
        counts.record_stream(self.stream)

    def result(self):
        while not self.event.query():
            pass
        return self.host.tolist()


class MoELayer(nn.Module):
    def __init__(self, dim, n_experts=8):
        super().__init__()
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(n_experts))
        self.shared = nn.Linear(dim, dim)
        self.fetcher = CountFetcher(n_experts)

    def forward(self, x):
        gate, choice = self.router(x).softmax(-1).max(-1)
        order = choice.argsort()
        counts = F.one_hot(choice, len(self.experts)).sum(0)
        self.fetcher.start(counts)
        shared = self.shared(x)
        pieces = x[order].split(self.fetcher.result())
        routed = torch.cat([expert(piece) for expert, piece in zip(self.experts, pieces)])
        restored = torch.empty_like(routed).index_copy(0, order, routed)
        return shared + gate.unsqueeze(-1) * restored


def main():
    model = nn.Sequential(MoELayer(512), nn.LayerNorm(512), MoELayer(512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(500):
        x = torch.randn(8192, 512, device="cuda")
        loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
