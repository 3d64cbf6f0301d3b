"""Weight synchronisation from a trainer to tensor-parallel workers through one shared bucket."""
import queue
import threading

import torch


class BucketLayout:
    def __init__(self, named_shapes):
        self.entries = []
        offset = 0
        for name, shape in named_shapes:
            numel = 1
            for s in shape:
                numel *= s
            self.entries.append((name, shape, offset, numel))
            offset += numel
        self.numel = offset


class TPWorker(threading.Thread):
    """Owns its shard of every parameter; installs whatever lies in the bucket."""

    def __init__(self, rank, world, bucket, is_driver, ack):
        super().__init__(daemon=True)
        self.rank = rank
        self.world = world
        self.bucket = bucket
        self.is_driver = is_driver
        self.ack = ack
        self.inbox = queue.Queue()
        self.stream = torch.cuda.Stream()
        self.shards = {}

    def _install(self, layout):
        for name, shape, offset, numel in layout.entries:
            full = self.bucket[offset : offset + numel].view(shape)
            part = full.chunk(self.world, dim=0)[self.rank]
            if name not in self.shards:
                self.shards[name] = torch.empty_like(part)
            self.shards[name].copy_(part)

    def run(self):
        while True:
            item = self.inbox.get()
            if item is None:
                return
            layout, packed = item
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(packed)
                self._install(layout)
            if self.is_driver:
                self.stream.synchronize()
                self.ack.put(True)


class WeightSender:
    def __init__(self, capacity, tp_size):
        self.bucket = torch.empty(capacity, dtype=torch.bfloat16, device="cuda")
        self.ack = queue.Queue()
        self.stream = torch.cuda.Stream()
        self.workers = [TPWorker(r, tp_size, self.bucket, r == 0, self.ack) for r in range(tp_size)]
        for w in self.workers:
            w.start()

    def _pack(self, group):
        layout = BucketLayout([(n, tuple(p.shape)) for n, p in group])
        with torch.cuda.stream(self.stream):
            for (_, p), (_, _, offset, numel) in zip(group, layout.entries):
                self.bucket[offset : offset + numel].copy_(p.reshape(-1))
            packed = self.stream.record_event()
        return layout, packed

    def push(self, named_params, group_size=4):
        self.stream.wait_stream(torch.cuda.current_stream())
        params = list(named_params)
        for i in range(0, len(params), group_size):
            message = self._pack(params[i : i + group_size])
            for w in self.workers:
                w.inbox.put(message)
            self.ack.get()
        self.stream.synchronize()

    def close(self):
        for w in self.workers:
            w.inbox.put(None)
            w.join()
        torch.cuda.synchronize()


def main():
    params = [(f"layer{i}.weight", torch.randn(4096, 1024, device="cuda")) for i in range(24)]
    sender = WeightSender(4 * 4096 * 1024, tp_size=4)
    for _ in range(5):
        for _, p in params:
            p.add_(0.01)
        sender.push(params)
    sender.close()


if __name__ == "__main__":
    main()
