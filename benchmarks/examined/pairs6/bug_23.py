"""ZeRO stage 2 style reduction with overlap: one flat buffer, a reduction stream."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Stage2Reducer:
    def __init__(self, module, reduce_bucket_size=8_000_000, overlap_comm=True):
        self.overlap_comm = overlap_comm
        self.ipg_buffer = torch.empty(reduce_bucket_size, device="cuda")
        self.elements_in_ipg_bucket = 0
        self.params_in_ipg_bucket = []
        self.averaged_gradients = {}
        self.reduction_stream = torch.cuda.Stream() if overlap_comm else torch.cuda.current_stream()
        self.reduction_stream.wait_stream(torch.cuda.current_stream())
        for p in module.parameters():
            self.averaged_gradients[p] = torch.zeros_like(p)
            p.register_post_accumulate_grad_hook(self.reduce_independent_p_g_buckets)

    def reduce_independent_p_g_buckets(self, p):
        if self.elements_in_ipg_bucket + p.numel() > self.ipg_buffer.numel():
            self.reduce_ipg_grads()
        slot = self.ipg_buffer.narrow(0, self.elements_in_ipg_bucket, p.numel())
        slot.copy_(p.grad.view(-1))
        p.grad = None
        self.params_in_ipg_bucket.append((p, slot))
        self.elements_in_ipg_bucket += p.numel()

    def average_tensor(self, tensor):
        self.reduction_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduction_stream):
            tensor.div_(dist.get_world_size())
            dist.all_reduce(tensor)
            for p, slot in self.params_in_ipg_bucket:
                self.averaged_gradients[p].copy_(slot.view_as(p))

    def reduce_ipg_grads(self):
        self.average_tensor(self.ipg_buffer.narrow(0, 0, self.elements_in_ipg_bucket))
        self.params_in_ipg_bucket = []
        self.elements_in_ipg_bucket = 0

    def overlapping_partition_gradients_reduce_epilogue(self):
        self.reduce_ipg_grads()
        if self.overlap_comm:
            torch.cuda.current_stream().wait_stream(self.reduction_stream)
        for p, grad in self.averaged_gradients.items():
            p.grad = grad


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = nn.Sequential(*[nn.Linear(1536, 1536, bias=False) for _ in range(40)]).cuda()
    reducer = Stage2Reducer(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    for _ in range(300):
        net(torch.randn(32, 1536, device="cuda")).pow(2).mean().backward()
        reducer.overlapping_partition_gradients_reduce_epilogue()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
