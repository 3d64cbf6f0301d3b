import threading

import torch


class ParameterShard:
    def __init__(self, params):
        self.params = params
        self.momentum = torch.zeros_like(params)
        self.grads = torch.zeros_like(params)
        self.lock = threading.Lock()


class AsyncGraphGroup:
    def __init__(self, build_graph, num_workers, flat_params, num_shards, lr, device="cuda"):
        self.build_graph = build_graph
        self.device = torch.device(device)
        self.lr = lr
        self.num_workers = num_workers
        self.shards = [ParameterShard(c.clone()) for c in flat_params.chunk(num_shards)]
        torch.cuda.synchronize(self.device)

    def fetch_params(self, local):
        pos = 0
        for shard in self.shards:
            with shard.lock:
                n = shard.params.numel()
                local[pos : pos + n].copy_(shard.params)
                pos += n

    def push_gradients(self, grads):
        pos = 0
        for shard in self.shards:
            n = shard.params.numel()
            with shard.lock:
                shard.grads.copy_(grads[pos : pos + n])
                shard.momentum.mul_(0.9).add_(shard.grads)
                shard.params.add_(shard.momentum, alpha=-self.lr)
            pos += n

    def _worker(self, batches, costs):
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            total = sum(s.params.numel() for s in self.shards)
            local = torch.empty(total, device=self.device, requires_grad=True)
            for batch in batches:
                with torch.no_grad():
                    self.fetch_params(local)
                cost = self.build_graph(local, batch)
                (grad,) = torch.autograd.grad(cost, local)
                self.push_gradients(grad)
                costs.append(cost.detach())
            stream.synchronize()

    def train(self, corpus):
        costs = [[] for _ in range(self.num_workers)]
        threads = [
            threading.Thread(target=self._worker, args=(corpus[i :: self.num_workers], costs[i]))
            for i in range(self.num_workers)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return float(torch.stack([c for part in costs for c in part]).mean())
