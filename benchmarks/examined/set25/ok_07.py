import torch
import torch.nn as nn


class EmbeddingModule(nn.Module):
    def __init__(self, rows, dim, tables):
        super().__init__()
        self.tables = nn.ParameterList(
            nn.Parameter(torch.randn(rows, dim) * 0.01, requires_grad=False) for _ in range(tables)
        )

    def forward(self, ids):
        return torch.cat([t[ids[:, i]] for i, t in enumerate(self.tables)], dim=-1)

    def apply_update(self, ids, grad, lr):
        dim = self.tables[0].shape[1]
        for i, t in enumerate(self.tables):
            t.index_add_(0, ids[:, i], grad[:, i * dim : (i + 1) * dim], alpha=-lr)


class SemiSyncPipeline:
    """Looks up the embeddings of batch i+1 while the dense part of batch i runs."""

    def __init__(self, emb, dense, batches):
        self.emb = emb
        self.dense = dense
        self.batches = iter(batches)
        self.opt = torch.optim.SGD(dense.parameters(), lr=1e-2)
        self.memcpy_stream = torch.cuda.Stream()
        self.embedding_stream = torch.cuda.Stream()
        self.embedding_stream.wait_stream(torch.cuda.current_stream())

    def copy_batch(self):
        batch = next(self.batches, None)
        if batch is None:
            return None
        with torch.cuda.stream(self.memcpy_stream):
            return [t.pin_memory().to("cuda", non_blocking=True) for t in batch]

    def start_embeddings(self, batch):
        ids, label = batch
        self.embedding_stream.wait_stream(self.memcpy_stream)
        ids.record_stream(self.embedding_stream)
        with torch.cuda.stream(self.embedding_stream):
            pooled = self.emb(ids)
            ready = self.embedding_stream.record_event()
        return ids, label, pooled, ready

    def dense_step(self, ids, label, pooled, ready):
        main = torch.cuda.current_stream()
        main.wait_event(ready)
        main.wait_stream(self.memcpy_stream)
        for t in (ids, label, pooled):
            t.record_stream(main)
        pooled = pooled.detach().requires_grad_()
        loss = nn.functional.mse_loss(self.dense(pooled), label)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach(), pooled.grad

    def update_embeddings(self, ids, grad):
        main = torch.cuda.current_stream()
        self.embedding_stream.wait_stream(main)
        with torch.cuda.stream(self.embedding_stream):
            self.emb.apply_update(ids, grad, 1e-2)
        grad.record_stream(self.embedding_stream)

    def run(self):
        losses = []
        batch = self.copy_batch()
        current = self.start_embeddings(batch) if batch else None
        while current is not None:
            batch = self.copy_batch()
            upcoming = self.start_embeddings(batch) if batch else None
            loss, grad = self.dense_step(*current)
            self.update_embeddings(current[0], grad)
            losses.append(loss)
            current = upcoming
        torch.cuda.current_stream().wait_stream(self.embedding_stream)
        return torch.stack(losses).mean().item()


def main():
    emb = EmbeddingModule(100000, 64, 4).cuda()
    dense = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 1)).cuda()
    data = [(torch.randint(0, 100000, (1024, 4)), torch.randn(1024, 1)) for _ in range(64)]
    print(SemiSyncPipeline(emb, dense, data).run())


if __name__ == "__main__":
    main()
