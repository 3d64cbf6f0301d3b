"""Activation offloading through saved-tensor hooks and one transfer stream."""
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    def __init__(self, min_bytes=1 << 20, max_fwd_stash=4):
        super().__init__(self._pack, self._unpack)
        self.min_bytes = min_bytes
        self.max_fwd_stash = max_fwd_stash
        self.transfer = torch.cuda.Stream()
        self.tracker = {}
        self.fwd_stash = {}
        self.next_id = 0

    def _release_stash(self, keep):
        compute = torch.cuda.current_stream()
        while len(self.fwd_stash) > keep:
            oldest = next(iter(self.fwd_stash))
            _, copied = self.fwd_stash[oldest]
            compute.wait_event(copied)
            del self.fwd_stash[oldest]

    def _pack(self, tensor):
        tensor_id = self.next_id
        self.next_id += 1
        big = tensor.numel() * tensor.element_size() >= self.min_bytes
        if not tensor.is_cuda or not big or isinstance(tensor, nn.Parameter):
            self.tracker[tensor_id] = (tensor, None)
            return tensor_id
        self._release_stash(self.max_fwd_stash)
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.transfer.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.transfer):
            host.copy_(tensor, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record()
        self.fwd_stash[tensor_id] = (tensor, copied)
        self.tracker[tensor_id] = (host, copied)
        return tensor_id

    def _unpack(self, tensor_id):
        stored, copied = self.tracker.pop(tensor_id)
        if copied is None:
            return stored
        if tensor_id in self.fwd_stash:
            return self.fwd_stash[tensor_id][0]
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.transfer):
            self.transfer.wait_event(copied)
            restored = stored.to("cuda", non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
        compute.wait_event(arrived)
        restored.record_stream(compute)
        return restored

    def __exit__(self, *args):
        super().__exit__(*args)
        self.transfer.synchronize()
        torch.cuda.current_stream().synchronize()
        self.fwd_stash.clear()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def train(dim=1024, depth=12, steps=10):
    model = nn.Sequential(*[Block(dim) for _ in range(depth)]).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        x = torch.randn(4096, dim, device="cuda", dtype=torch.bfloat16)
        with OffloadActivations():
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(step, loss.item())


if __name__ == "__main__":
    train()
