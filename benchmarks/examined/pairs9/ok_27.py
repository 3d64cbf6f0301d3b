"""A generator that keeps one graph minibatch ahead in two reusable device buffers."""
import torch
from torch import nn


def minibatches(features, adjacency, size, generator):
    for chunk in torch.randperm(features.shape[0], generator=generator).split(size):
        if chunk.numel() == size:
            yield features[chunk], adjacency[chunk]


def ahead(source, size, dim, neighbours, device="cuda"):
    stream = torch.cuda.Stream(device)
    slots = [
        (torch.empty(size, dim, device=device),
         torch.empty(size, neighbours, dtype=torch.long, device=device))
        for _ in range(2)
    ]
    ready = [torch.cuda.Event() for _ in slots]
    released = [torch.cuda.Event() for _ in slots]
    for event in released:
        event.record()

    def load(i, batch):
        stream.wait_event(released[i % 2])
        with torch.cuda.stream(stream):
            for dst, src in zip(slots[i % 2], batch):
                dst.copy_(src.pin_memory(), non_blocking=True)
            ready[i % 2].record()

    it = iter(source)
    first = next(it, None)
    if first is None:
        return
    load(0, first)
    i = 0
    while True:
        following = next(it, None)
        if following is not None:
            load(i + 1, following)
        torch.cuda.current_stream().wait_event(ready[i % 2])
        yield slots[i % 2]
        released[i % 2].record()
        if following is None:
            return
        i += 1


class GraphLayer(nn.Module):
    def __init__(self, dim, nodes):
        super().__init__()
        self.table = nn.Embedding(nodes, dim)
        self.mix = nn.Linear(2 * dim, dim)

    def forward(self, x, neigh):
        return torch.relu(self.mix(torch.cat([x, self.table(neigh).mean(1)], -1)))


def main(nodes=20_000, dim=128, neighbours=16, size=1024):
    gen = torch.Generator().manual_seed(0)
    features = torch.randn(nodes, dim, generator=gen)
    adjacency = torch.randint(0, nodes, (nodes, neighbours), generator=gen)
    model = GraphLayer(dim, nodes).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, neigh in ahead(minibatches(features, adjacency, size, gen), size, dim, neighbours):
            loss = (model(x, neigh) - x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
