"""Heterogeneous graph convolution: one stream for each relation, all summed into one output."""
import torch
import torch.nn as nn


class RelationConv(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.linear = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, adjacency, feat):
        return torch.sparse.mm(adjacency, self.linear(feat))


class HeteroConv(nn.Module):
    def __init__(self, relations, in_dim, out_dim, device):
        super().__init__()
        self.relations = list(relations)
        self.out_dim = out_dim
        self.convs = nn.ModuleDict({r: RelationConv(in_dim, out_dim) for r in self.relations})
        self.to(device)
        self.streams = {r: torch.cuda.Stream(device) for r in self.relations}

    @torch.inference_mode()
    def forward(self, adjacency, feat, num_dst):
        main = torch.cuda.current_stream(feat.device)
        out = torch.zeros(num_dst, self.out_dim, device=feat.device, dtype=feat.dtype)
        start = main.record_event()
        for rel in self.relations:
            stream = self.streams[rel]
            stream.wait_event(start)
            with torch.cuda.stream(stream):
                out.add_(self.convs[rel](adjacency[rel], feat))
        for stream in self.streams.values():
            main.wait_stream(stream)
        return out


class HeteroNet(nn.Module):
    def __init__(self, relations, dims, device="cuda"):
        super().__init__()
        self.layers = nn.ModuleList(
            HeteroConv(relations, a, b, device) for a, b in zip(dims[:-1], dims[1:])
        )

    def forward(self, adjacency, feat):
        for i, layer in enumerate(self.layers):
            feat = layer(adjacency, feat, feat.shape[0])
            if i + 1 < len(self.layers):
                feat = torch.relu(feat)
        return feat


def random_adjacency(nodes, edges, device):
    idx = torch.randint(nodes, (2, edges), device=device)
    val = torch.ones(edges, device=device)
    return torch.sparse_coo_tensor(idx, val, (nodes, nodes)).coalesce()


if __name__ == "__main__":
    rels = ["cites", "writes", "reviews"]
    graph = {r: random_adjacency(20000, 200000, "cuda") for r in rels}
    net = HeteroNet(rels, [128, 128, 64])
    print(net(graph, torch.randn(20000, 128, device="cuda")).sum().item())
