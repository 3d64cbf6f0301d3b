import threading

import torch


class Replica(threading.Thread):
    def __init__(self, rank, peers, barrier, steps):
        super().__init__(name=f"replica-{rank}")
        self.rank, self.peers, self.barrier, self.steps = rank, peers, barrier, steps
        self.device = torch.device("cuda", rank)
        torch.manual_seed(0)
        self.model = torch.nn.Linear(2048, 2048).to(self.device)
        self.flat = torch.empty(sum(p.numel() for p in self.model.parameters()), device=self.device)
        torch.cuda.synchronize(self.device)
        self.stream = torch.cuda.Stream(self.device)
        self.error = None

    def _pack(self):
        torch.cat([p.grad.reshape(-1) for p in self.model.parameters()], out=self.flat)

    def _average(self):
        total = self.flat.clone()
        for other in self.peers:
            if other is not self:
                total += other.flat.to(self.device, non_blocking=True)
        return total.div_(len(self.peers))

    def _apply(self, avg, lr=1e-2):
        off = 0
        with torch.no_grad():
            for p in self.model.parameters():
                n = p.numel()
                p.add_(avg[off:off + n].view_as(p), alpha=-lr)
                p.grad = None
                off += n

    def _rendezvous(self):
        self.stream.synchronize()
        self.barrier.wait()

    def run(self):
        try:
            with torch.cuda.stream(self.stream):
                for step in range(self.steps):
                    x = torch.randn(64, 2048, device=self.device)
                    self.model(x).square().mean().backward()
                    self._pack()
                    self._rendezvous()
                    avg = self._average()
                    self._rendezvous()
                    self._apply(avg)
                self.stream.synchronize()
        except Exception as exc:
            self.error = exc
            self.barrier.abort()


def main(world=2, steps=20):
    peers = []
    barrier = threading.Barrier(world)
    for rank in range(world):
        peers.append(Replica(rank, peers, barrier, steps))
    for r in peers:
        r.start()
    for r in peers:
        r.join()
        if r.error is not None:
            raise r.error
    return [r.model.weight.sum().item() for r in peers]
