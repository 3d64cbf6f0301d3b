import torch
import torch.distributed as dist


class DeepSpeedZeroOptimizer:
    """Reduces gradients through two contiguous ipg buffers on a reduction stream."""

    def __init__(self, params, dp_process_group, reduce_bucket_size=int(5e8), overlap_comm=True, dtype=torch.bfloat16):
        self.params = list(params)
        self.dp_process_group = dp_process_group
        self.world_size = dist.get_world_size(dp_process_group)
        self.reduce_bucket_size = reduce_bucket_size
        self.overlap_comm = overlap_comm
        self.dtype = dtype
        self.reduction_stream = torch.cuda.Stream() if overlap_comm else torch.cuda.current_stream()
        self.ipg_buffer = []
        self.ipg_events = []
        self.ipg_index = 0
        self.elements_in_ipg_bucket = 0
        self.params_in_ipg_bucket = []
        self.averaged_gradients = {p: torch.zeros_like(p, dtype=torch.float32) for p in self.params}
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.reduce_independent_p_g_buckets_and_remove_grads)

    def backward(self, loss):
        self.ipg_buffer = [torch.empty(self.reduce_bucket_size, dtype=self.dtype, device="cuda")]
        self.ipg_events = [None, None]
        # Use double buffers to avoid data access conflict when overlap_comm is enabled.
        if self.overlap_comm:
            self.ipg_buffer.append(torch.empty(self.reduce_bucket_size, dtype=self.dtype, device="cuda"))
        self.ipg_index = 0
        loss.backward()
        self.reduce_ipg_grads()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)
        self.ipg_buffer = []

    def reduce_independent_p_g_buckets_and_remove_grads(self, param):
        if self.elements_in_ipg_bucket + param.numel() > self.reduce_bucket_size:
            self.reduce_ipg_grads()
            # Swap ipg_index between 0 and 1
            if self.overlap_comm:
                self.ipg_index = 1 - self.ipg_index
                if self.ipg_events[self.ipg_index] is not None:
                    torch.cuda.current_stream().wait_event(self.ipg_events[self.ipg_index])

        new_grad_tensor = self.ipg_buffer[self.ipg_index].narrow(0, self.elements_in_ipg_bucket, param.numel())
        new_grad_tensor.copy_(param.grad.view(-1))
        param.grad = None
        self.params_in_ipg_bucket.append((param, self.elements_in_ipg_bucket))
        self.elements_in_ipg_bucket += param.numel()

    def average_tensor(self, tensor):
        if self.overlap_comm:
            self.reduction_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduction_stream):
            tensor.div_(self.world_size)
            dist.all_reduce(tensor, group=self.dp_process_group)
            for param, offset in self.params_in_ipg_bucket:
                reduced = tensor.narrow(0, offset, param.numel())
                self.averaged_gradients[param].add_(reduced.view_as(param))
            self.ipg_events[self.ipg_index] = self.reduction_stream.record_event()

    def reduce_ipg_grads(self):
        if not self.params_in_ipg_bucket:
            return
        bucket = self.ipg_buffer[self.ipg_index].narrow(0, 0, self.elements_in_ipg_bucket)
        self.average_tensor(bucket)
        self.params_in_ipg_bucket = []
        self.elements_in_ipg_bucket = 0
