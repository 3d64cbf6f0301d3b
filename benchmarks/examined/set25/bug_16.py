import torch
import torch.nn as nn


class MemoryStash:
    """Parks the embedding weights on the host while the dense part runs."""

    def __init__(self):
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self.buffers = {}
        self.stashed = None

    def _buffer(self, index, tensor):
        if index not in self.buffers:
            self.buffers[index] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return self.buffers[index]

    def execute_stash(self, tensors):
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            for i, tensor in enumerate(tensors):
                self._buffer(i, tensor).copy_(tensor, non_blocking=True)
            self.stashed = self.d2h_stream.record_event()
        for tensor in tensors:
            tensor.untyped_storage().resize_(0)

    def execute_restore(self, tensors):
        current = torch.cuda.current_stream()
        for tensor in tensors:
            tensor.untyped_storage().resize_(tensor.numel() * tensor.element_size())
        self.h2d_stream.wait_stream(current)
        with torch.cuda.stream(self.h2d_stream):
            self.h2d_stream.wait_event(self.stashed)
            for i, tensor in enumerate(tensors):
                tensor.copy_(self.buffers[i], non_blocking=True)
        current.wait_stream(self.h2d_stream)


class TableBatchedEmbedding:
    def __init__(self, tables, rows, dim):
        self.weights = [torch.randn(rows, dim, device="cuda") * 0.01 for _ in range(tables)]

    def lookup(self, indices):
        return torch.cat([w[i].sum(dim=1) for w, i in zip(self.weights, indices)], dim=-1)

    def backward_and_update(self, grad, indices, lr):
        dim = self.weights[0].shape[1]
        for t, (w, i) in enumerate(zip(self.weights, indices)):
            g = grad[:, t * dim : (t + 1) * dim]
            w.index_add_(0, i.flatten(), g.repeat_interleave(i.shape[1], dim=0), alpha=-lr)


class Trainer:
    def __init__(self, tables=4, rows=1000000, dim=64):
        self.tbe = TableBatchedEmbedding(tables, rows, dim)
        self.dense = nn.Sequential(
            nn.Linear(tables * dim, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1)
        ).cuda()
        self.opt = torch.optim.Adagrad(self.dense.parameters(), lr=1e-2)
        self.stash = MemoryStash()
        self.rows = rows
        self.tables = tables

    def step(self, batch=8192, pooling=8):
        indices = [torch.randint(0, self.rows, (batch, pooling), device="cuda") for _ in range(self.tables)]
        label = torch.randint(0, 2, (batch, 1), device="cuda").float()
        pooled = self.tbe.lookup(indices).requires_grad_()
        self.stash.execute_stash(self.tbe.weights)
        logits = self.dense(pooled)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, label)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.stash.execute_restore(self.tbe.weights)
        self.tbe.backward_and_update(pooled.grad, indices, 1e-2)
        return loss.detach()


def main():
    trainer = Trainer()
    losses = [trainer.step() for _ in range(50)]
    print(torch.stack(losses).cpu().mean().item())


if __name__ == "__main__":
    main()
