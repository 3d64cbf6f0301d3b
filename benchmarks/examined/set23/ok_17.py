"""Decode graphs per batch size; the shared expert runs on an auxiliary stream."""
import bisect

import torch
from torch import nn


class SharedExpertMoE(nn.Module):
    def __init__(self, dim, ffn, experts, aux_stream):
        super().__init__()
        self.aux_stream = aux_stream
        self.gate = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, ffn) / dim ** 0.5)
        self.w2 = nn.Parameter(torch.randn(experts, ffn, dim) / ffn ** 0.5)
        self.shared = nn.Sequential(nn.Linear(dim, ffn), nn.GELU(), nn.Linear(ffn, dim))
        self.fork = torch.cuda.Event()
        self.join = torch.cuda.Event()

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.fork.record(main)
        with torch.cuda.stream(self.aux_stream):
            self.aux_stream.wait_event(self.fork)
            shared = self.shared(x)
            self.join.record(self.aux_stream)
        weights = torch.softmax(self.gate(x), dim=-1)
        hidden = torch.relu(torch.einsum("bd,edf->ebf", x, self.w1))
        routed = torch.einsum("ebf,efd->ebd", hidden, self.w2)
        routed = torch.einsum("be,ebd->bd", weights, routed)
        main.wait_event(self.join)
        shared.record_stream(main)
        return x + routed + shared


class DecodeModel(nn.Module):
    def __init__(self, vocab, dim, ffn, experts, layers):
        super().__init__()
        self.aux_stream = torch.cuda.Stream()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(SharedExpertMoE(dim, ffn, experts, self.aux_stream) for _ in range(layers))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class GraphRunner:
    def __init__(self, model, batch_sizes):
        self.model = model
        self.batch_sizes = sorted(batch_sizes)
        self.input_ids = torch.zeros(self.batch_sizes[-1], dtype=torch.long, device="cuda")
        self.stream = torch.cuda.Stream()
        self.graphs, self.outputs = {}, {}
        pool = None
        for bs in reversed(self.batch_sizes):
            graph, out = self._capture(bs, pool)
            pool = graph.pool()
            self.graphs[bs], self.outputs[bs] = graph, out

    def _capture(self, bs, pool):
        ids = self.input_ids[:bs]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.model(ids)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=self.stream):
            out = self.model(ids)
        torch.cuda.synchronize()
        return graph, out

    def __call__(self, ids):
        n = ids.shape[0]
        bs = self.batch_sizes[bisect.bisect_left(self.batch_sizes, n)]
        self.input_ids[:n].copy_(ids)
        if n < bs:
            self.input_ids[n:bs].zero_()
        self.graphs[bs].replay()
        return self.outputs[bs][:n].clone()


@torch.inference_mode()
def main():
    model = DecodeModel(8000, 512, 1024, 8, 4).cuda().half().eval()
    runner = GraphRunner(model, [1, 2, 4, 8, 16, 32])
    ids = torch.arange(20, device="cuda")
    collected = []
    for step in range(32):
        logits = runner(ids)
        collected.append(logits)
        ids = logits.argmax(-1)
        if step % 8 == 7:
            ids = ids[:-2]
    print([round(l.float().std().item(), 4) for l in collected])


if __name__ == "__main__":
    main()
