import torch


class DirtyRows:
    """A table in GPU memory whose changed rows are mirrored on the host now and then."""

    def __init__(self, rows, dim):
        self.table = torch.zeros(rows, dim, device="cuda")
        self.mirror = torch.zeros(rows, dim)
        self.dirty = []
        self.flush_stream = torch.cuda.Stream()
        self.flying = []

    def add(self, ids, delta):
        if len(self.flying) > 0:
            torch.cuda.current_stream().wait_stream(self.flush_stream)
        self.table.index_add_(0, ids, delta)
        self.dirty.append(ids)

    def flush(self):
        count = len(self.dirty)
        if count:
            ids = torch.cat(self.dirty).unique()
            self.flush_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.flush_stream):
                rows = self.table.index_select(0, ids)
                host = torch.empty(rows.shape, pin_memory=True)
                host_ids = torch.empty(ids.shape, dtype=ids.dtype, pin_memory=True)
                host.copy_(rows, non_blocking=True)
                host_ids.copy_(ids, non_blocking=True)
            ids.record_stream(self.flush_stream)
            self.flying.append((host_ids, host))
            self.dirty = []
        return count

    def settle(self):
        n = len(self.flying)
        if n == 0:
            return 0
        if n >= 1:
            self.flush_stream.synchronize()
        moved = 0
        for ids, rows in self.flying:
            self.mirror[ids] = rows
            moved += len(ids)
        self.flying.clear()
        return moved


def main(rows=5000, dim=32, steps=100):
    table = DirtyRows(rows, dim)
    moved = 0
    for step in range(steps):
        if step % 7 != 6:
            ids = torch.randint(0, rows, (64,), device="cuda")
            table.add(ids, torch.randn(64, dim, device="cuda"))
        if step % 5 == 0:
            table.flush()
        if step % 10 == 9:
            moved += table.settle()
    table.flush()
    moved += table.settle()
    gap = (table.table.cpu() - table.mirror).abs().max().item()
    print("moved", moved, "gap", gap)


if __name__ == "__main__":
    main()
