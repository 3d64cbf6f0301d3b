from collections import OrderedDict

import torch
import torch.distributed as dist


class IPGBucket:
    def __init__(self, bucket_size, dtype, device):
        self.buffer = [torch.empty(bucket_size, dtype=dtype, device=device) for _ in range(2)]
        self.free = [torch.cuda.Event() for _ in range(2)]
        self.index = 0
        self.elements = 0
        self.params = []

    def clear(self):
        self.params.clear()
        self.elements = 0


class ZeroOneOptimizer:
    """ZeRO stage 1 gradient reduction with overlap_comm and contiguous gradients."""

    def __init__(self, module, optimizer, bucket_size=int(5e8), overlap_comm=True, group=None):
        self.module = module
        self.optimizer = optimizer
        self.group = group
        self.overlap_comm = overlap_comm
        self.reduce_bucket_size = bucket_size
        params = [p for p in module.parameters() if p.requires_grad]
        self.device = params[0].device
        self.reduction_stream = torch.cuda.Stream(self.device)
        self.ipg_bucket = IPGBucket(bucket_size, params[0].dtype, self.device)
        self.averaged_gradients = OrderedDict((p, torch.zeros_like(p)) for p in params)
        for p in params:
            p.register_post_accumulate_grad_hook(self.reduce_ready_partitions)

    def reduce_ready_partitions(self, param):
        bucket = self.ipg_bucket
        if bucket.elements + param.numel() > self.reduce_bucket_size:
            self.reduce_ipg_grads()
            if self.overlap_comm:
                bucket.index = 1 - bucket.index
                torch.cuda.current_stream(self.device).wait_event(bucket.free[bucket.index])
        target = bucket.buffer[bucket.index].narrow(0, bucket.elements, param.numel())
        target.copy_(param.grad.view(-1))
        bucket.params.append((param, bucket.elements))
        bucket.elements += param.numel()
        param.grad = None

    def average_tensor(self, tensor):
        tensor.div_(dist.get_world_size(self.group))
        dist.all_reduce(tensor, group=self.group)

    def reduce_ipg_grads(self):
        bucket = self.ipg_bucket
        if not bucket.params:
            return
        stream = torch.cuda.current_stream(self.device)
        if self.overlap_comm:
            self.reduction_stream.wait_stream(stream)
            stream = self.reduction_stream
        with torch.cuda.stream(stream):
            flat = bucket.buffer[bucket.index].narrow(0, 0, bucket.elements)
            self.average_tensor(flat)
            for param, offset in bucket.params:
                reduced = flat.narrow(0, offset, param.numel())
                self.averaged_gradients[param].add_(reduced.view_as(param))
            bucket.free[bucket.index].record(stream)
        bucket.clear()

    def overlapping_partition_gradients_reduce_epilogue(self):
        self.reduce_ipg_grads()
        torch.cuda.current_stream(self.device).wait_stream(self.reduction_stream)

    def backward(self, loss):
        loss.backward()
        self.overlapping_partition_gradients_reduce_epilogue()

    def step(self):
        for param, grad in self.averaged_gradients.items():
            param.grad = grad
        self.optimizer.step()
        for param, grad in self.averaged_gradients.items():
            param.grad = None
            grad.zero_()
