"""Evaluation loop: graphed model forward and a windowed AUC metric."""
import torch
from torch import nn


class DLRMTower(nn.Module):
    def __init__(self, dense_dim, num_tables, rows, dim, tasks):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, dim) for _ in range(num_tables))
        self.dense = nn.Sequential(nn.Linear(dense_dim, 512), nn.ReLU(), nn.Linear(512, dim))
        self.over = nn.Sequential(nn.Linear(dim * (num_tables + 1), 512), nn.ReLU(), nn.Linear(512, tasks))

    def forward(self, dense, sparse):
        feats = [self.dense(dense)] + [t(sparse[:, i]) for i, t in enumerate(self.tables)]
        return torch.sigmoid(self.over(torch.cat(feats, dim=1))).t().contiguous()


class GraphedForward:
    def __init__(self, model, batch, dense_dim, num_tables, tasks):
        self.dense = torch.zeros(batch, dense_dim, device="cuda")
        self.sparse = torch.zeros(batch, num_tables, dtype=torch.long, device="cuda")
        self.labels = torch.zeros(tasks, batch, device="cuda")
        self.weights = torch.ones(tasks, batch, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                model(self.dense, self.sparse)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), torch.no_grad():
            self.predictions = model(self.dense, self.sparse)

    def __call__(self, dense, sparse):
        self.dense.copy_(dense, non_blocking=True)
        self.sparse.copy_(sparse, non_blocking=True)
        self.graph.replay()
        return self.predictions


class AUCMetricComputation:
    def __init__(self, tasks, window_size):
        self.tasks = tasks
        self.window_size = window_size
        self.predictions = []
        self.labels = []
        self.weights = []
        self.num_samples = 0

    def update(self, predictions, labels, weights):
        self.predictions.append(predictions)
        self.labels.append(labels)
        self.weights.append(weights)
        self.num_samples += predictions.size(-1)
        while self.num_samples > self.window_size and len(self.predictions) > 1:
            diff = self.predictions[0].size(-1)
            for window in (self.predictions, self.labels, self.weights):
                window.pop(0)
            self.num_samples -= diff

    def compute(self):
        predictions = torch.cat(self.predictions, dim=-1)
        labels = torch.cat(self.labels, dim=-1)
        weights = torch.cat(self.weights, dim=-1)
        order = torch.argsort(predictions, dim=-1, descending=True)
        labels = torch.gather(labels, 1, order)
        weights = torch.gather(weights, 1, order)
        tp = torch.cumsum(weights * labels, -1)
        fp = torch.cumsum(weights * (1 - labels), -1)
        area = torch.trapezoid(tp, fp, dim=-1)
        return area / (tp[:, -1] * fp[:, -1]).clamp(min=1e-9)


def evaluate(batches=64, batch=2048, dense_dim=13, num_tables=8, tasks=2):
    model = DLRMTower(dense_dim, num_tables, 10000, 64, tasks).cuda().eval()
    forward = GraphedForward(model, batch, dense_dim, num_tables, tasks)
    metric = AUCMetricComputation(tasks, window_size=batch * 32)
    for _ in range(batches):
        dense = torch.randn(batch, dense_dim, device="cuda")
        sparse = torch.randint(0, 10000, (batch, num_tables), device="cuda")
        labels = torch.randint(0, 2, (tasks, batch), device="cuda").float()
        predictions = forward(dense, sparse)
        metric.update(predictions, labels, torch.ones_like(labels))
    return metric.compute().tolist()


if __name__ == "__main__":
    print(evaluate())
