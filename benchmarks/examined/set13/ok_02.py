import torch
import torch.distributed as dist


class IPGBucket:

    def __init__(self, numel, dtype, device):
        self.buffer = [torch.empty(numel, dtype=dtype, device=device) for _ in range(2)]
        self.index = 0
        self.elements = 0
        self.params = []
        self.copy_streams = set()

    def clear(self):
        self.elements = 0
        self.params.clear()
        self.copy_streams.clear()


class DeepSpeedZeroOptimizer:

    def __init__(self, module, reduce_bucket_size=int(5e8), num_copy_streams=2, dp_process_group=None):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.dp_process_group = dp_process_group
        self.reduce_bucket_size = reduce_bucket_size
        self.reduction_stream = torch.cuda.Stream()
        self.grad_copy_streams = [torch.cuda.Stream() for _ in range(num_copy_streams)]
        dtype = next(module.parameters()).dtype
        self.ipg_bucket = IPGBucket(reduce_bucket_size, dtype, self.device)
        self._count = 0
        for param in module.parameters():
            if param.requires_grad:
                param.register_post_accumulate_grad_hook(self.reduce_independent_p_g_buckets_and_remove_grads)

    def reduce_independent_p_g_buckets_and_remove_grads(self, param):
        bucket = self.ipg_bucket
        if bucket.elements + param.numel() > self.reduce_bucket_size:
            self.reduce_ipg_grads()
            bucket.index = 1 - bucket.index
            torch.cuda.current_stream().wait_stream(self.reduction_stream)

        buffer = bucket.buffer[bucket.index]
        new_grad_tensor = buffer.narrow(0, bucket.elements, param.numel())
        copy_stream = self.grad_copy_streams[self._count % len(self.grad_copy_streams)]
        self._count += 1
        copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy_stream):
            new_grad_tensor.copy_(param.grad.view(-1), non_blocking=True)

        bucket.copy_streams.add(copy_stream)
        bucket.params.append((param, bucket.elements))
        bucket.elements += param.numel()

    def average_tensor(self, tensor):
        stream = self.reduction_stream
        stream.wait_stream(torch.cuda.current_stream())
        for copy_stream in self.ipg_bucket.copy_streams:
            stream.wait_stream(copy_stream)
        with torch.cuda.stream(stream):
            tensor.div_(dist.get_world_size(group=self.dp_process_group))
            dist.all_reduce(tensor, group=self.dp_process_group)
            for param, offset in self.ipg_bucket.params:
                param.grad.view(-1).copy_(tensor.narrow(0, offset, param.numel()))

    def reduce_ipg_grads(self):
        bucket = self.ipg_bucket
        if bucket.elements == 0:
            return
        self.average_tensor(bucket.buffer[bucket.index].narrow(0, 0, bucket.elements))
        bucket.clear()

    def overlapping_partition_gradients_reduce_epilogue(self):
        self.reduce_ipg_grads()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)

    def backward(self, loss):
        loss.backward()
        self.overlapping_partition_gradients_reduce_epilogue()
