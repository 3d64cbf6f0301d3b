from collections import deque

import torch
import torch.nn.functional as F


class FusedEmbeddingBag:
    """Embedding table whose optimizer step is fused into the backward."""

    def __init__(self, rows, dim, lr, device):
        self.weight = torch.randn(rows, dim, device=device) * 0.01
        self.lr = lr

    def lookup(self, values, offsets):
        return F.embedding_bag(values, self.weight, offsets, mode="sum")

    def fused_update(self, values, lengths, grad):
        row_grad = grad.repeat_interleave(lengths, dim=0, output_size=values.numel())
        self.weight.index_add_(0, values, row_grad, alpha=-self.lr)


class Context:
    def __init__(self, batch):
        self.batch = batch
        self.pooled = None
        self.event = None


class TrainPipelineSemiSync:
    """The embedding lookup of the next batch overlaps with the dense part of this one."""

    def __init__(self, table, dense, optimizer, device):
        self.table = table
        self.dense = dense
        self.optimizer = optimizer
        self.device = device
        self.memcpy_stream = torch.cuda.Stream(device=device)
        self.embedding_stream = torch.cuda.Stream(device=device)
        self.contexts = deque()

    def _copy_batch_to_gpu(self, dataloader):
        batch = next(dataloader, None)
        if batch is None:
            return False
        with torch.cuda.stream(self.memcpy_stream):
            batch = {k: v.pin_memory().to(self.device, non_blocking=True) for k, v in batch.items()}
        self.contexts.append(Context(batch))
        return True

    def _start_embedding_lookup(self, ctx):
        main = torch.cuda.current_stream()
        self.embedding_stream.wait_stream(main)
        self.embedding_stream.wait_stream(self.memcpy_stream)
        main.wait_stream(self.memcpy_stream)
        with torch.cuda.stream(self.embedding_stream), torch.no_grad():
            ctx.pooled = self.table.lookup(ctx.batch["values"], ctx.batch["offsets"])
            ctx.event = self.embedding_stream.record_event()
        for t in ctx.batch.values():
            t.record_stream(self.embedding_stream)
            t.record_stream(main)

    def _wait_embedding_lookup(self, ctx):
        main = torch.cuda.current_stream()
        main.wait_event(ctx.event)
        ctx.pooled.record_stream(main)
        return ctx.pooled.requires_grad_()

    def fill_pipeline(self, dataloader):
        if not self.contexts and self._copy_batch_to_gpu(dataloader):
            self._start_embedding_lookup(self.contexts[0])

    def progress(self, dataloader):
        self.fill_pipeline(dataloader)
        if not self.contexts:
            raise StopIteration
        ctx = self.contexts[0]
        pooled = self._wait_embedding_lookup(ctx)
        if self._copy_batch_to_gpu(dataloader):
            self._start_embedding_lookup(self.contexts[1])
        logits = self.dense(torch.cat([pooled, ctx.batch["dense"]], dim=1)).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(logits, ctx.batch["label"])
        self.optimizer.zero_grad()
        loss.backward()
        self.table.fused_update(ctx.batch["values"], ctx.batch["lengths"], pooled.grad)
        self.optimizer.step()
        self.contexts.popleft()
        return loss.detach()
