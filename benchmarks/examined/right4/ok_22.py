import queue
import threading

import torch


class RowLedger:
    """Rows on the device side, by count."""

    def __init__(self):
        self._out = {}
        self._cond = threading.Condition()

    def lend(self, rows):
        with self._cond:
            self._cond.wait_for(lambda: not any(r in self._out for r in rows))
            for r in rows:
                self._out[r] = True

    def settle(self, rows):
        with self._cond:
            for r in rows:
                del self._out[r]
            self._cond.notify_all()


class WriteBack(threading.Thread):
    def __init__(self, table, ledger, blocks):
        super().__init__(daemon=True)
        self.table, self.ledger = table, ledger
        self.jobs, self.blocks = queue.Queue(), queue.Queue()
        for b in blocks:
            self.blocks.put(b)
        self.stream = torch.cuda.Stream()

    def push(self, ids, values):
        block = self.blocks.get()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            block[: len(ids)].copy_(values, non_blocking=True)
            done = self.stream.record_event()
        values.record_stream(self.stream)
        self.jobs.put((ids, block, done))

    def run(self):
        while (job := self.jobs.get()) is not None:
            ids, block, done = job
            done.synchronize()
            self.table[ids] = block[: len(ids)]
            self.blocks.put(block)
            self.ledger.settle(ids.tolist())


class HostEmbedding:
    def __init__(self, rows, dim, batch, depth=3):
        self.table = torch.randn(rows, dim) * 0.01
        self.ledger = RowLedger()
        blocks = [torch.empty(batch, dim, pin_memory=True) for _ in range(depth)]
        self.writer = WriteBack(self.table, self.ledger, blocks)
        self.writer.start()

    def pull(self, ids):
        self.ledger.lend(ids.tolist())
        return self.table[ids].to("cuda")

    def push(self, ids, rows):
        self.writer.push(ids, rows)

    def close(self):
        self.writer.jobs.put(None)
        self.writer.join()


def train(batches, batch=1024):
    emb = HostEmbedding(1_000_000, 64, batch)
    head = torch.nn.Linear(64, 1).cuda()
    opt = torch.optim.SGD(head.parameters(), lr=0.01)
    for ids, label in batches:
        uniq, inverse = ids.unique(return_inverse=True)
        rows = emb.pull(uniq).requires_grad_()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            head(rows[inverse.cuda()]).squeeze(-1), label.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
        emb.push(uniq, rows.detach() - 0.05 * rows.grad)
    emb.close()
    return emb.table
