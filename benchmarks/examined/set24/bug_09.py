from concurrent.futures import Future, ThreadPoolExecutor

import torch


def transfer_tensors_to_cpu(tensors):
    """Start a non-blocking copy of every tensor; returns (host tensors, event)."""
    host = {}
    for name, t in tensors.items():
        buf = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        buf.copy_(t, non_blocking=True)
        host[name] = buf
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream())
    return host, event


class MeanMetric:
    def __init__(self):
        self.total = 0.0
        self.weight = 0.0

    def merge(self, host):
        pred, label = host["prediction"], host["label"]
        w = host["weight"]
        self.total += float((((pred - label) ** 2) * w).sum())
        self.weight += float(w.sum())

    def value(self):
        return self.total / max(self.weight, 1e-12)


class DeferrableMetrics:
    """Accumulates metrics on a background thread so the trainer never blocks on the GPU."""

    def __init__(self, metric):
        self.metric = metric
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.pending: "list[Future]" = []

    def update(self, model_out):
        host, event = transfer_tensors_to_cpu(model_out)

        def merge():
            event.synchronize()
            self.metric.merge(host)

        self.pending.append(self.executor.submit(merge))

    def compute(self):
        for f in self.pending:
            f.result()
        self.pending.clear()
        return self.metric.value()


class RankTrainer:
    def __init__(self, model, local_rank, lr):
        self.device = torch.device("cuda", local_rank)
        self.model = model.to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.metrics = DeferrableMetrics(MeanMetric())

    def step(self, dense, label, weight):
        dense = dense.to(self.device)
        label = label.to(self.device)
        weight = weight.to(self.device)
        pred = self.model(dense).squeeze(-1)
        loss = (((pred - label) ** 2) * weight).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.metrics.update(
            {"prediction": pred.detach(), "label": label, "weight": weight}
        )


def train(model, batches, log_every=50):
    trainer = RankTrainer(model, local_rank=1, lr=0.01)
    for i, batch in enumerate(batches):
        trainer.step(*batch)
        if i % log_every == log_every - 1:
            print(i, trainer.metrics.compute())
