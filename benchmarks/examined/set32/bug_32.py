"""Broadcast of large tensors over a CPU transport, chunk by chunk, with credits."""
import torch
import torch.distributed as dist


class ChunkPlan:
    def __init__(self, numel, chunk):
        self.bounds = [(lo, min(lo + chunk, numel)) for lo in range(0, numel, chunk)]

    def __iter__(self):
        return iter(self.bounds)


class ChunkSender:
    def __init__(self, group, peers, chunk, dtype):
        self.group, self.peers, self.chunk = group, peers, chunk
        self.staging = torch.empty(chunk, dtype=dtype, pin_memory=True)
        self.credit = torch.zeros(1, dtype=torch.int32)

    def send(self, tensor):
        flat = tensor.reshape(-1)
        for lo, hi in ChunkPlan(flat.numel(), self.chunk):
            view = self.staging[: hi - lo]
            view.copy_(flat[lo:hi])
            for peer in self.peers:
                dist.send(view, peer, group=self.group)
            for peer in self.peers:
                dist.recv(self.credit, peer, group=self.group)


class ChunkReceiver:
    def __init__(self, group, root, chunk, dtype, device):
        self.group, self.root, self.chunk = group, root, chunk
        self.device = torch.device(device)
        self.staging = torch.empty(chunk, dtype=dtype, pin_memory=True)
        self.credit = torch.ones(1, dtype=torch.int32)
        self.copy_stream = torch.cuda.Stream(self.device)

    def receive(self, tensor):
        flat = tensor.view(-1)
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        for lo, hi in ChunkPlan(flat.numel(), self.chunk):
            view = self.staging[: hi - lo]
            dist.recv(view, self.root, group=self.group)
            with torch.cuda.stream(self.copy_stream):
                flat[lo:hi].copy_(view, non_blocking=True)
            dist.send(self.credit, self.root, group=self.group)
        self.copy_stream.synchronize()
        return tensor


class SlowBroadcast:
    """Used where the ranks share no fast fabric."""

    def __init__(self, root=0, chunk=1 << 22, dtype=torch.float32, device="cuda"):
        self.root = root
        self.group = dist.new_group(backend="gloo")
        rank = dist.get_rank()
        if rank == root:
            peers = [r for r in range(dist.get_world_size()) if r != root]
            self.end = ChunkSender(self.group, peers, chunk, dtype)
        else:
            self.end = ChunkReceiver(self.group, root, chunk, dtype, device)
        self.is_root = rank == root

    def __call__(self, tensor):
        if self.is_root:
            self.end.send(tensor)
        else:
            self.end.receive(tensor)
        return tensor


def sync_module(module, device="cuda"):
    cast = SlowBroadcast(device=device)
    with torch.no_grad():
        for p in module.parameters():
            cast(p.data)
        for b in module.buffers():
            if b.dtype == torch.float32:
                cast(b.data)
    return module
