import torch
import torch.distributed as dist


class IPGBucket:
    def __init__(self, numel, dtype, device):
        self.buffer = torch.empty(numel, dtype=dtype, device=device)
        self.elements = 0
        self.params = []

    def clear(self):
        self.elements = 0
        self.params.clear()


class Stage3Optimizer:
    """Partitions gradients while backward runs; each rank keeps its fp32 shard."""

    def __init__(self, params, bucket_numel, device):
        self.params = [p for p in params if p.requires_grad]
        self.device = device
        self.world = dist.get_world_size()
        self.reduce_and_partition_stream = torch.cuda.Stream(device)
        self.bucket = IPGBucket(bucket_numel, torch.bfloat16, device)
        self.shards = {
            p: torch.zeros(p.numel() // self.world, dtype=torch.float32, device=device)
            for p in self.params
        }
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)
        torch.cuda.synchronize(device)

    def _on_grad(self, param):
        if self.bucket.elements + param.numel() > self.bucket.buffer.numel():
            self._reduce_bucket()
        self._add_grad_to_ipg_bucket(param)

    @torch.no_grad()
    def _add_grad_to_ipg_bucket(self, param):
        self.reduce_and_partition_stream.wait_stream(torch.cuda.default_stream(self.device))
        with torch.cuda.stream(self.reduce_and_partition_stream):
            start = self.bucket.elements
            dst = self.bucket.buffer.narrow(0, start, param.numel())
            dst.copy_(param.grad.view(-1))
            param.grad.record_stream(self.reduce_and_partition_stream)
        param.grad = None
        self.bucket.elements += param.numel()
        self.bucket.params.append((param, start))

    @torch.no_grad()
    def _reduce_bucket(self):
        with torch.cuda.stream(self.reduce_and_partition_stream):
            for param, start in self.bucket.params:
                flat = self.bucket.buffer.narrow(0, start, param.numel())
                out = torch.empty(param.numel() // self.world, dtype=flat.dtype, device=self.device)
                dist.reduce_scatter_tensor(out, flat)
                self.shards[param].add_(out.float(), alpha=1.0 / self.world)
        self.bucket.clear()

    @torch.no_grad()
    def step(self, lr):
        self._reduce_bucket()
        torch.cuda.current_stream().wait_stream(self.reduce_and_partition_stream)
        for p in self.params:
            full = torch.empty(p.numel(), dtype=torch.float32, device=self.device)
            dist.all_gather_into_tensor(full, self.shards[p])
            p.add_(full.view_as(p).to(p.dtype), alpha=-lr)
            self.shards[p].zero_()
        self.reduce_and_partition_stream.wait_stream(torch.cuda.current_stream())


def train(model, batches, lr, device):
    opt = Stage3Optimizer(model.parameters(), 64 << 20, device)
    train_stream = torch.cuda.Stream(device)
    train_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(train_stream):
        for tokens, labels in batches:
            tokens = tokens.to(device)
            labels = labels.to(device)
            logits = model(tokens)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss.backward()
            opt.step(lr)
    torch.cuda.current_stream().wait_stream(train_stream)
