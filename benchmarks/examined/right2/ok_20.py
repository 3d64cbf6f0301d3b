import torch
import torch.distributed as dist
import torch.nn as nn


class IPGReducer:
    """ZeRO style contiguous gradient buffers, reduced on a side stream."""

    def __init__(self, module: nn.Module, bucket_size: int, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.bucket_size = bucket_size
        self.ipg_buffer = [torch.empty(bucket_size, device="cuda") for _ in range(2)]
        self.buffer_free = [torch.cuda.Event() for _ in range(2)]
        self.ipg_index = 0
        self.elements_in_ipg_bucket = 0
        self.params_in_ipg_bucket = []
        self.reduction_stream = torch.cuda.Stream()
        for param in module.parameters():
            param.register_post_accumulate_grad_hook(self.reduce_independent_p_g_buckets)

    def reduce_independent_p_g_buckets(self, param):
        if self.elements_in_ipg_bucket + param.numel() > self.bucket_size:
            self.reduce_ipg_grads()
        start = self.elements_in_ipg_bucket
        window = self.ipg_buffer[self.ipg_index].narrow(0, start, param.numel())
        window.copy_(param.grad.view(-1))
        self.params_in_ipg_bucket.append((param, window))
        self.elements_in_ipg_bucket += param.numel()

    def reduce_ipg_grads(self):
        if not self.params_in_ipg_bucket:
            return
        current = torch.cuda.current_stream()
        self.reduction_stream.wait_stream(current)
        with torch.cuda.stream(self.reduction_stream):
            bucket = self.ipg_buffer[self.ipg_index][: self.elements_in_ipg_bucket]
            dist.all_reduce(bucket, group=self.group)
            bucket.div_(self.world)
            for param, window in self.params_in_ipg_bucket:
                param.grad.view(-1).copy_(window)
            self.buffer_free[self.ipg_index].record(self.reduction_stream)
        self.params_in_ipg_bucket = []
        self.elements_in_ipg_bucket = 0
        self.ipg_index = 1 - self.ipg_index
        current.wait_event(self.buffer_free[self.ipg_index])

    def overlapping_partition_gradients_reduce_epilogue(self):
        self.reduce_ipg_grads()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)


class Engine:
    def __init__(self, module, lr=1e-4, bucket_size=1 << 24):
        self.module = module.cuda()
        self.reducer = IPGReducer(self.module, bucket_size)
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=lr, fused=True)

    def backward(self, loss):
        loss.backward()
        self.reducer.overlapping_partition_gradients_reduce_epilogue()

    def step(self):
        nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def train(module, loader, local_rank):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    engine = Engine(module)
    for tokens, labels in loader:
        logits = engine.module(tokens.cuda())
        engine.backward(nn.functional.cross_entropy(logits, labels.cuda()))
        engine.step()
