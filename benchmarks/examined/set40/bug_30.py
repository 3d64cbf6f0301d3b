"""DGL feature propagation on a side stream with a custom CuPy normaliser."""
import argparse

import cupy as cp
import dgl
import torch

_row_l2 = cp.RawKernel(r"""
extern "C" __global__
void row_l2(float *h, int rows, int dim)
{
    int r = blockIdx.x;
    if (r >= rows) return;
    __shared__ float acc[256];
    float s = 0.f;
    float *row = h + (size_t)r * dim;
    for (int c = threadIdx.x; c < dim; c += blockDim.x) s += row[c] * row[c];
    acc[threadIdx.x] = s;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) acc[threadIdx.x] += acc[threadIdx.x + k];
        __syncthreads();
    }
    float inv = rsqrtf(acc[0] + 1e-12f);
    for (int c = threadIdx.x; c < dim; c += blockDim.x) row[c] *= inv;
}
""", "row_l2")


def row_normalize_(h):
    rows, dim = h.shape
    arr = cp.asarray(h)
    _row_l2((rows,), (256,), (arr, cp.int32(rows), cp.int32(dim)))
    return h


class Propagator:
    """Pre-computes [X, AX, A^2X, ...] as used by SIGN / SGC style models."""

    def __init__(self, graph, hops, device):
        self.graph = graph.to(device)
        self.hops = hops
        self.stream = torch.cuda.Stream(device)
        deg = self.graph.in_degrees().clamp(min=1).float()
        self.norm = deg.rsqrt().unsqueeze(1)

    def hop(self, h):
        h = h * self.norm
        h = dgl.ops.copy_u_sum(self.graph, h)
        return h * self.norm

    def __call__(self, x):
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        feats = [x]
        with torch.cuda.stream(self.stream):
            h = x
            for _ in range(self.hops):
                h = row_normalize_(self.hop(h))
                feats.append(h)
            out = torch.cat(feats, dim=1)
        main.wait_stream(self.stream)
        out.record_stream(main)
        return out


class SIGNHead(torch.nn.Module):
    def __init__(self, in_dim, hidden, classes):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(in_dim, hidden), torch.nn.PReLU(),
            torch.nn.Dropout(0.3), torch.nn.Linear(hidden, classes))

    def forward(self, x):
        return self.net(x)


def train(head, feats, labels, epochs, batch):
    opt = torch.optim.Adam(head.parameters(), lr=3e-3)
    loss_fn = torch.nn.CrossEntropyLoss()
    for epoch in range(epochs):
        perm = torch.randperm(feats.shape[0], device=feats.device)
        total = 0.0
        for idx in perm.split(batch):
            loss = loss_fn(head(feats[idx]), labels[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += float(loss) * idx.numel()
        print(f"epoch {epoch}: {total / feats.shape[0]:.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=200_000)
    ap.add_argument("--edges", type=int, default=4_000_000)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--hops", type=int, default=3)
    args = ap.parse_args()
    device = torch.device("cuda:0")
    g = dgl.add_self_loop(dgl.rand_graph(args.nodes, args.edges))
    x = torch.randn(args.nodes, args.dim, device=device)
    y = torch.randint(0, 16, (args.nodes,), device=device)
    feats = Propagator(g, args.hops, device)(x)
    head = SIGNHead(feats.shape[1], 256, 16).to(device)
    train(head, feats, y, epochs=3, batch=8192)


if __name__ == "__main__":
    main()
