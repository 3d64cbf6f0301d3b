from typing import Dict, List

import torch
import torch.distributed as dist


class ZeroStage2Optimizer:
    """Gradient bucketing of a ZeRO stage 2 optimizer with overlapped communication."""

    def __init__(self, params: List[torch.nn.Parameter], dp_group, reduce_bucket_size: int,
                 overlap_comm: bool = True, contiguous_gradients: bool = True):
        self.params = params
        self.dp_process_group = dp_group
        self.reduce_bucket_size = reduce_bucket_size
        self.overlap_comm = overlap_comm
        self.contiguous_gradients = contiguous_gradients
        device = params[0].device
        self.reduction_stream = torch.cuda.Stream(device) if overlap_comm else None
        self.param_id: Dict[torch.nn.Parameter, int] = {p: i for i, p in enumerate(params)}
        self.averaged_gradients = [
            torch.zeros(p.numel(), dtype=p.dtype, device=device) for p in params
        ]
        self.ipg_buffer: List[torch.Tensor] = []
        self.ipg_index = 0
        self.elements_in_ipg_bucket = 0
        self.params_in_ipg_bucket = []
        self._hooks = [
            p.register_post_accumulate_grad_hook(self.reduce_ready_partitions_and_remove_grads)
            for p in params
        ]

    def setup_ipg_buffers(self):
        n_buffers = 2 if self.overlap_comm else 1
        p = self.params[0]
        self.ipg_buffer = [
            torch.empty(self.reduce_bucket_size, dtype=p.dtype, device=p.device)
            for _ in range(n_buffers)
        ]
        self.ipg_index = 0

    def reduce_ready_partitions_and_remove_grads(self, param):
        self.reduce_independent_p_g_buckets_and_remove_grads(param)

    def reduce_independent_p_g_buckets_and_remove_grads(self, param):
        if self.elements_in_ipg_bucket + param.numel() > self.reduce_bucket_size:
            self.reduce_ipg_grads()
            if self.contiguous_gradients and self.overlap_comm:
                self.ipg_index = 1 - self.ipg_index

        new_grad_tensor = self.ipg_buffer[self.ipg_index].narrow(
            0, self.elements_in_ipg_bucket, param.numel()
        )
        new_grad_tensor.copy_(param.grad.view(-1))
        param.grad = None
        self.params_in_ipg_bucket.append((self.param_id[param], self.elements_in_ipg_bucket, param.numel()))
        self.elements_in_ipg_bucket += param.numel()

    def average_tensor(self, tensor: torch.Tensor, layout):
        if self.overlap_comm:
            stream = self.reduction_stream
            stream.wait_stream(torch.cuda.current_stream())
        else:
            stream = torch.cuda.current_stream()

        with torch.cuda.stream(stream):
            tensor.div_(dist.get_world_size(group=self.dp_process_group))
            dist.all_reduce(tensor, group=self.dp_process_group)
            for param_id, offset, numel in layout:
                self.averaged_gradients[param_id].add_(tensor.narrow(0, offset, numel))

    def reduce_ipg_grads(self):
        if self.elements_in_ipg_bucket == 0:
            return
        bucket = self.ipg_buffer[self.ipg_index].narrow(0, 0, self.elements_in_ipg_bucket)
        self.average_tensor(bucket, self.params_in_ipg_bucket)
        self.params_in_ipg_bucket = []
        self.elements_in_ipg_bucket = 0

    def backward(self, loss: torch.Tensor):
        if not self.ipg_buffer:
            self.setup_ipg_buffers()
        loss.backward()
        self.reduce_ipg_grads()
        if self.overlap_comm:
            torch.cuda.current_stream().wait_stream(self.reduction_stream)

    @torch.no_grad()
    def step(self, lr: float):
        for p, g in zip(self.params, self.averaged_gradients):
            p.add_(g.view_as(p), alpha=-lr)
            g.zero_()
