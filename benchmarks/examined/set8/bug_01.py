import torch
import torch.distributed as dist


class BucketedGradientReducer:
    """Contiguous gradient buckets reduced on a side stream during backward."""

    def __init__(self, params, reduce_bucket_size, dp_process_group=None, overlap_comm=True,
                 dtype=torch.float16):
        self.params = list(params)
        self.dp_process_group = dp_process_group
        self.world_size = dist.get_world_size(group=dp_process_group)
        self.overlap_comm = overlap_comm
        self.reduce_bucket_size = int(reduce_bucket_size)
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.reduction_stream = torch.cuda.Stream() if overlap_comm else torch.cuda.current_stream()

        self.ipg_buffer = [
            torch.empty(self.reduce_bucket_size, dtype=dtype, device=self.device),
            torch.empty(self.reduce_bucket_size, dtype=dtype, device=self.device),
        ]
        self.ipg_index = 0
        self.elements_in_ipg_bucket = 0
        self.params_in_ipg_bucket = []

        total = sum(p.numel() for p in self.params)
        self.averaged_gradients = torch.zeros(total, dtype=dtype, device=self.device)
        self.grad_offset = {}
        offset = 0
        for p in self.params:
            self.grad_offset[p] = offset
            offset += p.numel()
        self._create_gradient_hooks()

    def _create_gradient_hooks(self):
        for param in self.params:
            if param.requires_grad:
                param.register_post_accumulate_grad_hook(self.reduce_independent_p_g_buckets)

    def reduce_independent_p_g_buckets(self, param):
        if self.elements_in_ipg_bucket + param.numel() > self.reduce_bucket_size:
            self.reduce_ipg_grads()
            if self.overlap_comm:
                self.ipg_index = 1 - self.ipg_index

        buffer = self.ipg_buffer[self.ipg_index]
        new_grad_tensor = buffer.narrow(0, self.elements_in_ipg_bucket, param.numel())
        new_grad_tensor.copy_(param.grad.view(-1))
        param.grad = None
        self.elements_in_ipg_bucket += param.numel()
        self.params_in_ipg_bucket.append(param)

    def average_tensor(self, tensor, params):
        if self.overlap_comm:
            stream = self.reduction_stream
            stream.wait_stream(torch.cuda.current_stream())
        else:
            stream = torch.cuda.current_stream()

        with torch.cuda.stream(stream):
            tensor.div_(self.world_size)
            dist.all_reduce(tensor, group=self.dp_process_group)
            offset = 0
            for param in params:
                dest = self.averaged_gradients.narrow(0, self.grad_offset[param], param.numel())
                dest.copy_(tensor.narrow(0, offset, param.numel()))
                offset += param.numel()

    def reduce_ipg_grads(self):
        if self.elements_in_ipg_bucket == 0:
            return
        tensor = self.ipg_buffer[self.ipg_index].narrow(0, 0, self.elements_in_ipg_bucket)
        self.average_tensor(tensor, self.params_in_ipg_bucket)
        self.params_in_ipg_bucket = []
        self.elements_in_ipg_bucket = 0

    def overlapping_partition_gradients_reduce_epilogue(self):
        self.reduce_ipg_grads()
        if self.overlap_comm:
            self.reduction_stream.synchronize()
        self.ipg_index = 0
        return self.averaged_gradients
