"""GraphSAGE training with pinned features gathered on a side stream (DGL)."""
import dgl
import dgl.nn as dglnn
import torch
import torch.nn.functional as F


class FeatureFetcher:
    def __init__(self, features, device):
        self.features = features
        self.handle = dgl.utils.pin_memory_inplace(self.features)
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def start(self, nodes):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        nodes.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            rows = dgl.utils.gather_pinned_tensor_rows(self.features, nodes)
            done = self.stream.record_event()
        return rows, done

    def finish(self, pending):
        rows, done = pending
        here = torch.cuda.current_stream(self.device)
        here.wait_event(done)
        rows.record_stream(here)
        return rows


class SAGE(torch.nn.Module):
    def __init__(self, in_dim, hidden, classes, layers):
        super().__init__()
        dims = [in_dim] + [hidden] * (layers - 1) + [classes]
        self.layers = torch.nn.ModuleList(
            dglnn.SAGEConv(a, b, "mean") for a, b in zip(dims[:-1], dims[1:]))

    def forward(self, blocks, x):
        for i, (layer, block) in enumerate(zip(self.layers, blocks)):
            x = layer(block, x)
            if i + 1 < len(self.layers):
                x = F.dropout(F.relu(x), 0.3, self.training)
        return x


def batches(graph, sampler, seeds, size):
    perm = seeds[torch.randperm(seeds.numel(), device=seeds.device)]
    for part in perm.split(size):
        nodes, out, blocks = sampler.sample_blocks(graph, part)
        yield nodes, out, blocks


def run_epoch(model, opt, loader, fetcher, labels):
    total = count = 0
    queue = None
    for nodes, out, blocks in loader:
        pending = fetcher.start(nodes)
        if queue is not None:
            total += step(model, opt, fetcher, labels, *queue)
            count += 1
        queue = (pending, out, blocks)
    if queue is not None:
        total += step(model, opt, fetcher, labels, *queue)
        count += 1
    return total / max(count, 1)


def step(model, opt, fetcher, labels, pending, out, blocks):
    x = fetcher.finish(pending)
    loss = F.cross_entropy(model(blocks, x), labels[out])
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main(n=500_000, e=8_000_000, dim=128):
    device = torch.device("cuda:0")
    graph = dgl.rand_graph(n, e).to(device)
    features = torch.randn(n, dim)
    labels = torch.randint(0, 32, (n,), device=device)
    seeds = torch.arange(0, n, 10, device=device)
    fetcher = FeatureFetcher(features, device)
    model = SAGE(dim, 256, 32, layers=2).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sampler = dgl.dataloading.NeighborSampler([10, 10])
    for epoch in range(3):
        loader = batches(graph, sampler, seeds, 4096)
        print(epoch, run_epoch(model, opt, loader, fetcher, labels))


if __name__ == "__main__":
    main()
