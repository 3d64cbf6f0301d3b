"""A reranker served from a CUDA graph whose last node copies the scores to the host."""
import torch
from torch import nn


class GraphServer:
    def __init__(self, model, batch, dim):
        self.stream = torch.cuda.Stream()
        self.query = torch.zeros(batch, dim, device="cuda")
        self.scores = torch.zeros(batch, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                model(self.query)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.scores.copy_(model(self.query).squeeze(-1), non_blocking=True)

    def __call__(self, query):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.query.copy_(query)
            self.graph.replay()
        self.stream.synchronize()
        return self.scores.tolist()


class Reranker(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 2048), nn.ReLU(), nn.Linear(2048, 1))

    def forward(self, x):
        return self.net(x)


class Retriever:
    def __init__(self, n, dim):
        self.index = nn.functional.normalize(torch.randn(n, dim, device="cuda"), dim=-1)

    def candidates(self, vector, k):
        ids = (self.index @ vector).topk(k).indices
        return ids, self.index[ids] * vector


@torch.inference_mode()
def main():
    dim, k = 768, 64
    retriever = Retriever(100_000, dim)
    server = GraphServer(Reranker(dim).cuda().eval(), k, dim)
    for _ in range(50):
        ids, features = retriever.candidates(torch.randn(dim, device="cuda"), k)
        scores = server(features)
        order = sorted(range(k), key=scores.__getitem__, reverse=True)
        print(ids[order[0]].item(), scores[order[0]])


if __name__ == "__main__":
    main()
