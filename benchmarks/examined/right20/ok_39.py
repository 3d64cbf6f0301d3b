import heapq
import itertools

import torch


class BlockManager:
    def __init__(self, gpu_blocks, cpu_blocks):
        self.gpu = list(range(gpu_blocks))
        self.cpu = list(range(cpu_blocks))

    def alloc(self, where, n):
        pool = getattr(self, where)
        taken, pool[:] = pool[:n], pool[n:]
        return taken

    def release(self, where, blocks):
        getattr(self, where).extend(blocks)


class SwapEngine:
    """KV blocks go to the host and back on one stream."""

    def __init__(self, gpu_blocks, cpu_blocks, shape):
        self.kv = torch.zeros(gpu_blocks, *shape, device="cuda")
        self.host = torch.zeros(cpu_blocks, *shape, pin_memory=True)
        self.stream = torch.cuda.Stream()

    def swap_out(self, pairs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for g, c in pairs:
                self.host[c].copy_(self.kv[g], non_blocking=True)

    def swap_in(self, pairs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for c, g in pairs:
                self.kv[g].copy_(self.host[c], non_blocking=True)

    def barrier(self):
        torch.cuda.current_stream().wait_stream(self.stream)


class Scheduler:
    def __init__(self, engine, manager, per_seq):
        self.engine, self.manager, self.per_seq = engine, manager, per_seq
        self.clock = itertools.count()
        self.running, self.swapped = [], []

    def preempt(self):
        _, seq, blocks = heapq.heappop(self.running)
        cpu = self.manager.alloc("cpu", self.per_seq)
        self.engine.swap_out(zip(blocks, cpu))
        self.manager.release("gpu", blocks)
        self.swapped.append((seq, cpu))

    def admit(self, seq):
        if len(self.manager.gpu) < self.per_seq:
            self.preempt()
        blocks = self.manager.alloc("gpu", self.per_seq)
        heapq.heappush(self.running, (next(self.clock), seq, blocks))

    def resume(self):
        if not self.swapped or len(self.manager.gpu) < self.per_seq:
            self.preempt()
        seq, cpu = self.swapped.pop(0)
        blocks = self.manager.alloc("gpu", self.per_seq)
        self.engine.swap_in(zip(cpu, blocks))
        self.manager.release("cpu", cpu)
        heapq.heappush(self.running, (next(self.clock), seq, blocks))

    def run(self):
        self.engine.barrier()
        for _, seq, blocks in self.running:
            idx = torch.tensor(blocks, device="cuda")
            self.engine.kv[idx] += seq + 1


def main():
    sched = Scheduler(SwapEngine(16, 64, (16, 64)), BlockManager(16, 64), per_seq=4)
    for seq in range(7):
        sched.admit(seq)
        sched.run()
    for _ in range(20):
        sched.resume()
        sched.run()
    print(sched.engine.kv.mean(dim=(1, 2)).tolist())


if __name__ == "__main__":
    main()
