import torch
import torch.distributed as dist


class IPGBucket:
    def __init__(self, numel, dtype, device):
        self.buffer = [torch.empty(numel, dtype=dtype, device=device) for _ in range(2)]
        self.reduced = [torch.cuda.Event(), torch.cuda.Event()]
        self.index = 0
        self.clear()

    def clear(self):
        self.elements = 0
        self.params = []

    def flip(self):
        self.clear()
        self.index = 1 - self.index


class Stage2GradReducer:
    def __init__(self, params, bucket_size, group=None):
        self.params = [p for p in params if p.requires_grad]
        self.bucket_size = bucket_size
        self.group = group
        self.world_size = dist.get_world_size(group)
        device, dtype = self.params[0].device, self.params[0].dtype
        self.bucket = IPGBucket(bucket_size, dtype, device)
        self.averaged = {p: torch.zeros_like(p) for p in self.params}
        self.reduction_stream = torch.cuda.Stream(device)
        self._hooks = [p.register_post_accumulate_grad_hook(self._ready) for p in self.params]

    def _ready(self, param):
        if self.bucket.elements + param.numel() > self.bucket_size:
            self.reduce_ipg_grads()
        self.copy_to_bucket(param)

    def copy_to_bucket(self, param):
        bucket = self.bucket
        if not bucket.params:
            torch.cuda.current_stream().wait_event(bucket.reduced[bucket.index])
        view = bucket.buffer[bucket.index].narrow(0, bucket.elements, param.numel())
        view.copy_(param.grad.view(-1))
        bucket.params.append((param, bucket.elements))
        bucket.elements += param.numel()
        param.grad = None

    def reduce_ipg_grads(self):
        bucket = self.bucket
        if not bucket.params:
            return
        flat = bucket.buffer[bucket.index].narrow(0, 0, bucket.elements)
        stream = self.reduction_stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            flat.div_(self.world_size)
            dist.all_reduce(flat, group=self.group)
            for param, offset in bucket.params:
                reduced = flat.narrow(0, offset, param.numel()).view_as(param)
                self.averaged[param].add_(reduced)
            bucket.reduced[bucket.index].record(stream)
        bucket.flip()

    def finish(self):
        self.reduce_ipg_grads()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)
        for param in self.params:
            param.grad = self.averaged[param]

    def zero_grad(self):
        for param in self.params:
            param.grad = None
            self.averaged[param].zero_()


def train_step(model, reducer, optimizer, batch):
    reducer.zero_grad()
    reducer.reduction_stream.wait_stream(torch.cuda.current_stream())
    loss = model(batch).mean()
    loss.backward()
    reducer.finish()
    optimizer.step()
    return loss.detach()
