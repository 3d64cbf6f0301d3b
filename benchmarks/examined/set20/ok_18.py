"""GNN mini-batch pipeline: zero-copy feature gather overlapped with training."""
import torch
import torch.nn as nn


class UvaFeatures:
    """Feature matrix in pinned host memory; rows are gathered on a side stream."""

    _uva_stream = None

    def __init__(self, features, device):
        self.features = features.pin_memory()
        self.device = device
        if UvaFeatures._uva_stream is None:
            UvaFeatures._uva_stream = torch.cuda.Stream(device=device, priority=-1)

    @property
    def stream(self):
        return UvaFeatures._uva_stream

    def read_async(self, nodes_cpu):
        with torch.cuda.stream(self.stream):
            staged = torch.empty(
                (nodes_cpu.numel(), self.features.shape[1]),
                dtype=self.features.dtype, pin_memory=True,
            )
            torch.index_select(self.features, 0, nodes_cpu, out=staged)
            rows = staged.to(self.device, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        return FetchHandle(rows, event)


class FetchHandle:
    def __init__(self, rows, event):
        self.rows = rows
        self.event = event

    def wait(self):
        current = torch.cuda.current_stream()
        current.wait_event(self.event)
        self.rows.record_stream(current)
        return self.rows


class MiniBatch:
    def __init__(self, seeds, nodes, edge_index, labels):
        self.seeds = seeds
        self.nodes = nodes
        self.edge_index = edge_index
        self.labels = labels
        self.handle = None


class Bufferer:
    """Keeps `depth` mini-batches with their fetches in flight."""

    def __init__(self, sampler, features, depth=2):
        self.sampler = sampler
        self.features = features
        self.depth = depth

    def __iter__(self):
        window = []
        for batch in self.sampler:
            batch.handle = self.features.read_async(batch.nodes)
            window.append(batch)
            if len(window) > self.depth:
                yield window.pop(0)
        while window:
            yield window.pop(0)


class SAGE(nn.Module):
    def __init__(self, in_dim, hidden, classes):
        super().__init__()
        self.self1, self.nbr1 = nn.Linear(in_dim, hidden), nn.Linear(in_dim, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, edge_index, num_seeds):
        src, dst = edge_index
        agg = torch.zeros_like(x).index_add_(0, dst, x[src])
        deg = torch.zeros(x.shape[0], 1, device=x.device).index_add_(
            0, dst, torch.ones(dst.shape[0], 1, device=x.device)
        )
        h = torch.relu(self.self1(x) + self.nbr1(agg / deg.clamp(min=1)))
        return self.out(h[:num_seeds])


def train(sampler, features, in_dim, classes, epochs=5):
    device = torch.device("cuda", 0)
    feats = UvaFeatures(features, device)
    model = SAGE(in_dim, 256, classes).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        total = torch.zeros((), device=device)
        for batch in Bufferer(sampler, feats):
            x = batch.handle.wait()
            logits = model(x, batch.edge_index.to(device), batch.seeds.numel())
            loss = nn.functional.cross_entropy(logits, batch.labels.to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
            batch.handle = None
        print(total.item())
