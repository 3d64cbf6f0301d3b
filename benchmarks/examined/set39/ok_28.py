"""Share parameter chunks with an evaluator process over CUDA IPC."""
from collections import deque

import torch
import torch.multiprocessing as mp


def evaluator(inbox, acks, count, numel):
    torch.cuda.set_device(0)
    mirror = torch.zeros(count, numel, device="cuda")
    torch.cuda.synchronize()
    while True:
        job = inbox.get()
        if job is None:
            break
        first, packed = job
        rows = packed.numel() // numel
        mirror[first:first + rows].copy_(packed.view(rows, numel))
        torch.cuda.synchronize()
        del packed, job
        acks.put(first)
    acks.put(float(mirror.double().sum()))


class ChunkSender:
    def __init__(self, inbox, acks, window=4):
        self.inbox = inbox
        self.acks = acks
        self.window = window
        self.in_flight = deque()

    def _reap(self, keep):
        while len(self.in_flight) > keep:
            first = self.acks.get()
            expected, _ = self.in_flight.popleft()
            assert first == expected

    def send(self, first, tensors):
        packed = torch.cat([t.reshape(-1) for t in tensors])
        torch.cuda.current_stream().synchronize()
        self.in_flight.append((first, packed))
        self.inbox.put((first, packed))
        self._reap(self.window)

    def finish(self):
        self._reap(0)
        self.inbox.put(None)
        return self.acks.get()


def main(count=64, numel=1 << 18, per_chunk=4):
    mp.set_start_method("spawn", force=True)
    inbox, acks = mp.Queue(), mp.Queue()
    peer = mp.Process(target=evaluator, args=(inbox, acks, count, numel))
    peer.start()

    torch.cuda.set_device(0)
    params = [torch.full((numel,), float(i), device="cuda") for i in range(count)]
    sender = ChunkSender(inbox, acks)
    for first in range(0, count, per_chunk):
        sender.send(first, params[first:first + per_chunk])
    total = sender.finish()
    peer.join()
    print("sum", total, "expected", float(sum(range(count)) * numel))


if __name__ == "__main__":
    main()
