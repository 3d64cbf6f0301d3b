"""Bucketed weight sync: a sender thread feeds a loader through one bucket."""
import queue
import threading

import torch
from torch import nn


class Bucket:
    def __init__(self, numel):
        self.data = torch.empty(numel, pin_memory=True)
        self.filled = queue.Queue(maxsize=1)
        self.acked = queue.Queue(maxsize=1)


class Sender(threading.Thread):
    def __init__(self, bucket, state):
        super().__init__(daemon=True)
        self.bucket = bucket
        self.state = state

    def _ship(self, table):
        self.bucket.filled.put(table)
        self.bucket.acked.get()

    def run(self):
        table, used = [], 0
        for name, value in self.state.items():
            n = value.numel()
            if used + n > self.bucket.data.numel():
                self._ship(table)
                table, used = [], 0
            self.bucket.data[used:used + n].copy_(value.reshape(-1))
            table.append((name, used, tuple(value.shape)))
            used += n
        if table:
            self._ship(table)
        self.bucket.filled.put(None)


class Receiver:
    def __init__(self, bucket, model):
        self.bucket = bucket
        self.params = dict(model.named_parameters())
        self.loaded = 0

    @torch.no_grad()
    def pull(self):
        while True:
            table = self.bucket.filled.get()
            if table is None:
                break
            arrived = []
            for name, start, shape in table:
                n = torch.Size(shape).numel()
                piece = self.bucket.data[start:start + n].view(shape)
                arrived.append((name, piece.to("cuda", non_blocking=True)))
            self.bucket.acked.put(len(arrived))
            for name, value in arrived:
                self.params[name].copy_(value)
                self.loaded += 1
        torch.cuda.synchronize()
        return self.loaded


def build(width=2048, depth=12):
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))


def main():
    torch.manual_seed(0)
    source = build()
    target = build().cuda()
    state = {k: v.detach().clone() for k, v in source.named_parameters()}

    bucket = Bucket(2048 * 2048 + 4096)
    sender = Sender(bucket, state)
    receiver = Receiver(bucket, target)
    sender.start()
    count = receiver.pull()
    sender.join()

    wrong = [k for k, v in target.named_parameters() if not torch.equal(v.detach().cpu(), state[k])]
    print("loaded", count, "wrong", wrong)


if __name__ == "__main__":
    main()
