import torch

from pool import BufferPool
from uploader import Uploader


class Ingest:
    def __init__(self, rows, shape, buffers=4):
        self.pool = BufferPool(buffers, shape)
        self.up = Uploader(on_queued=self.pool.give)
        self.table = torch.empty((rows, *shape), device="cuda")

    def load(self, records):
        for i, record in enumerate(records):
            self.up.send(self.pool.fill(record), self.table[i])
            self.up.poll()
        self.up.join()
        return self.table


def records(count, shape):
    for k in range(count):
        yield torch.full(shape, float(k))


def main(count=48, shape=(1024, 1024)):
    ingest = Ingest(count, shape)
    table = ingest.load(records(count, shape))
    wrong = (table.mean(dim=(1, 2)).round() != torch.arange(count, device="cuda")).sum()
    print(wrong.item(), ingest.pool.taken)
    ingest.up.poll(block=True)


if __name__ == "__main__":
    main()
