"""Embedding memory stashing: tables leave the GPU while the dense part of the model trains."""
import torch
import torch.nn as nn


class StashedTensor:
    """Device tensor whose storage can be dropped after its content went to the host."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.nbytes = tensor.untyped_storage().nbytes()
        self.host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.saved = None

    @property
    def resident(self):
        return self.tensor.untyped_storage().nbytes() != 0


class StashManager:
    def __init__(self):
        self.d2h_stream = torch.cuda.Stream()
        self.entries = {}

    def register(self, name, tensor):
        self.entries[name] = StashedTensor(tensor)

    def stash(self, name):
        e = self.entries[name]
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            e.host.copy_(e.tensor, non_blocking=True)
            e.saved = self.d2h_stream.record_event()

    def release(self, name):
        e = self.entries[name]
        if e.saved is None:
            raise RuntimeError(f"{name} has no host copy")
        e.tensor.untyped_storage().resize_(0)

    def restore(self, name):
        e = self.entries[name]
        if e.resident:
            return
        main = torch.cuda.current_stream()
        e.tensor.untyped_storage().resize_(e.nbytes)
        main.wait_event(e.saved)
        e.tensor.copy_(e.host, non_blocking=True)
        e.saved = None


class DenseArch(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x.sum(dim=1)


class DLRM:
    def __init__(self, rows=400_000, dim=256, features=4, depth=6):
        self.tables = [torch.randn(rows, dim, device="cuda") * 0.01 for _ in range(features)]
        self.dense = DenseArch(dim * features, depth).cuda()
        self.opt = torch.optim.SGD(self.dense.parameters(), lr=1e-3)
        self.stash = StashManager()
        for i, t in enumerate(self.tables):
            self.stash.register(f"table_{i}", t)

    def lookup(self, ids):
        pooled = [t[ids[:, f]].mean(dim=1) for f, t in enumerate(self.tables)]
        return torch.cat(pooled, dim=1).requires_grad_()

    @torch.no_grad()
    def update_tables(self, ids, grad):
        for f, (t, g) in enumerate(zip(self.tables, grad.chunk(len(self.tables), dim=1))):
            bag = ids[:, f]
            spread = (g / bag.shape[1]).repeat_interleave(bag.shape[1], dim=0)
            t.index_add_(0, bag.reshape(-1), spread, alpha=-0.1)

    def train_step(self, ids, labels):
        emb = self.lookup(ids)
        for name in self.stash.entries:
            self.stash.stash(name)
            self.stash.release(name)
        logits = self.dense(emb)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        for name in self.stash.entries:
            self.stash.restore(name)
        self.update_tables(ids, emb.grad)
        return loss.detach()


def main(steps=10, batch=16384, bag=4):
    torch.manual_seed(0)
    model = DLRM()
    losses = []
    for _ in range(steps):
        ids = torch.randint(400_000, (batch, len(model.tables), bag), device="cuda")
        labels = torch.randint(2, (batch,), device="cuda").float()
        losses.append(model.train_step(ids, labels))
    torch.cuda.synchronize()
    print([round(v.item(), 4) for v in losses])


if __name__ == "__main__":
    main()
