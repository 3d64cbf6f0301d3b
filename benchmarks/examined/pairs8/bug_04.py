import torch


class BlockPool:
    def __init__(self, n):
        self.free = list(range(n))

    def take(self, n):
        out, self.free = self.free[:n], self.free[n:]
        return out

    def give(self, blocks):
        self.free = list(blocks) + self.free


class KVOffloadWorker:
    """Moves KV blocks between the GPU cache and a pinned CPU pool."""

    def __init__(self, num_gpu=128, num_cpu=2048, elems=32 * 1024):
        self.kv = torch.zeros(num_gpu, elems, dtype=torch.bfloat16, device="cuda")
        self.host = torch.zeros(num_cpu, elems, dtype=torch.bfloat16, pin_memory=True)
        self.load_stream = torch.cuda.Stream()
        self.pool = BlockPool(num_gpu)
        torch.cuda.synchronize()

    def load(self, cpu_ids):
        gpu_ids = self.pool.take(len(cpu_ids))
        with torch.cuda.stream(self.load_stream):
            for g, c in zip(gpu_ids, cpu_ids):
                self.kv[g].copy_(self.host[c], non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.load_stream)
        return gpu_ids


class Runner:
    def __init__(self, worker):
        self.worker = worker
        self.weight = torch.randn(32 * 1024, 64, dtype=torch.bfloat16, device="cuda")

    def attention(self, block_ids):
        picked = self.worker.kv[block_ids[0] : block_ids[-1] + 1]
        return (picked @ self.weight).float().norm()


def main():
    worker = KVOffloadWorker()
    runner = Runner(worker)
    norms = []
    for request in range(64):
        cpu_ids = list(range(request * 16, request * 16 + 16))
        blocks = worker.load(cpu_ids)
        for _ in range(4):
            norms.append(runner.attention(sorted(blocks)))
        worker.pool.give(blocks)
    print(torch.stack(norms).tolist())


if __name__ == "__main__":
    main()
