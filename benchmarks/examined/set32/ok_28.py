"""Graph-captured ranker: user and item towers fork inside the graph."""
import torch
import torch.nn as nn


def tower(n_in, n_hidden, n_out):
    return nn.Sequential(nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_out))


class Ranker(nn.Module):
    def __init__(self, user_dim=512, item_dim=256, dim=128):
        super().__init__()
        self.user = tower(user_dim, 1024, dim)
        self.item = tower(item_dim, 1024, dim)

    def forward(self, user, items, side):
        main = torch.cuda.current_stream(user.device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            item_vec = self.item(items)
        user_vec = self.user(user)
        main.wait_stream(side)
        return (item_vec @ user_vec.unsqueeze(-1)).squeeze(-1)


class GraphedRanker:
    def __init__(self, model, batch, candidates, user_dim=512, item_dim=256, device="cuda"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.graph_stream = torch.cuda.Stream(self.device)
        self.side = torch.cuda.Stream(self.device)
        self.user = torch.zeros(batch, user_dim, device=self.device)
        self.items = torch.zeros(batch, candidates, item_dim, device=self.device)
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    @torch.no_grad()
    def _capture(self):
        self.graph_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.graph_stream):
            for _ in range(3):
                self.model(self.user, self.items, self.side)
        torch.cuda.synchronize(self.device)
        with torch.cuda.graph(self.graph, stream=self.graph_stream):
            self.scores = self.model(self.user, self.items, self.side)
        torch.cuda.synchronize(self.device)

    @torch.no_grad()
    def run(self, user, items):
        caller = torch.cuda.current_stream(self.device)
        n = user.shape[0]
        self.graph_stream.wait_stream(caller)
        with torch.cuda.stream(self.graph_stream):
            self.user[:n].copy_(user)
            self.items[:n].copy_(items)
            self.graph.replay()
            out = self.scores[:n].clone()
        for t in (user, items):
            if t.is_cuda:
                t.record_stream(self.graph_stream)
        caller.wait_stream(self.graph_stream)
        out.record_stream(caller)
        return out


class RankService:
    def __init__(self, batch=64, candidates=500):
        self.batch = batch
        self.ranker = GraphedRanker(Ranker(), batch, candidates)

    @torch.no_grad()
    def top(self, users, items, k=20):
        chunks = []
        for lo in range(0, users.shape[0], self.batch):
            scores = self.ranker.run(users[lo : lo + self.batch], items[lo : lo + self.batch])
            chunks.append(scores.topk(k, dim=-1).indices)
        return torch.cat(chunks).cpu()
