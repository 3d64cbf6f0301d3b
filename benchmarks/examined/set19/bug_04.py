"""Sparse train pipeline: input distribution of batch i+1 overlaps the dense forward of batch i."""
from dataclasses import dataclass, field

import torch


@dataclass
class PipelineContext:
    ids: torch.Tensor = None
    offsets: torch.Tensor = None
    labels: torch.Tensor = None
    divisor: torch.Tensor = None
    dist_done: torch.cuda.Event = field(default_factory=torch.cuda.Event)


def _to_device(batch, device):
    return {k: v.to(device, non_blocking=True) for k, v in batch.items()}


class MeanPooling:
    """Mean pooling over sum-pooled lookups; empty bags divide by one."""

    @staticmethod
    def create_divisor(offsets, batch_size, num_features):
        lengths = offsets[1:] - offsets[:-1]
        return lengths.view(num_features, batch_size).t().clamp(min=1).to(torch.float32).contiguous()

    @staticmethod
    def apply(pooled, divisor):
        return pooled / divisor.unsqueeze(-1)


class TrainPipelineSparseDist:
    def __init__(self, tables, dense, optimizer, num_features, device):
        self.tables = tables
        self.dense = dense
        self.optimizer = optimizer
        self.num_features = num_features
        self.device = device
        self.memcpy_stream = torch.cuda.Stream()
        self.data_dist_stream = torch.cuda.Stream()
        self._batch = None
        self._context = None

    def _copy_batch(self, loader):
        host = next(loader, None)
        if host is None:
            return None
        with torch.cuda.stream(self.memcpy_stream):
            return _to_device(host, self.device)

    def _start_sparse_data_dist(self, batch):
        ctx = PipelineContext()
        main = torch.cuda.current_stream()
        self.data_dist_stream.wait_stream(self.memcpy_stream)
        with torch.cuda.stream(self.data_dist_stream):
            for value in batch.values():
                value.record_stream(self.data_dist_stream)
                value.record_stream(main)
            batch_size = batch["labels"].shape[0]
            ctx.ids = batch["ids"].remainder(self.tables.num_embeddings)
            ctx.offsets = batch["offsets"]
            ctx.labels = batch["labels"]
            ctx.divisor = MeanPooling.create_divisor(ctx.offsets, batch_size, self.num_features)
            ctx.dist_done.record(self.data_dist_stream)
        return ctx

    def _wait_sparse_data_dist(self, ctx):
        main = torch.cuda.current_stream()
        main.wait_event(ctx.dist_done)
        for tensor in (ctx.ids, ctx.offsets, ctx.labels):
            tensor.record_stream(main)

    def _forward(self, ctx):
        pooled = self.tables(ctx.ids, ctx.offsets[:-1])
        pooled = pooled.view(self.num_features, -1, pooled.shape[-1]).transpose(0, 1)
        return self.dense(MeanPooling.apply(pooled, ctx.divisor).flatten(1))

    @torch.no_grad()
    def evaluate(self, loader):
        losses = []
        batch = self._copy_batch(loader)
        ctx = self._start_sparse_data_dist(batch) if batch is not None else None
        while ctx is not None:
            self._wait_sparse_data_dist(ctx)
            logits = self._forward(ctx)
            losses.append(
                torch.nn.functional.binary_cross_entropy_with_logits(logits.squeeze(-1), ctx.labels)
            )
            batch = self._copy_batch(loader)
            ctx = self._start_sparse_data_dist(batch) if batch is not None else None
        return torch.stack(losses).mean()


def run(loader, num_features=26, rows=1_000_000, dim=64):
    device = torch.device("cuda")
    tables = torch.nn.EmbeddingBag(rows, dim, mode="sum", device=device)
    dense = torch.nn.Sequential(
        torch.nn.Linear(num_features * dim, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)
    ).to(device)
    pipeline = TrainPipelineSparseDist(tables, dense, None, num_features, device)
    return pipeline.evaluate(iter(loader)).item()
