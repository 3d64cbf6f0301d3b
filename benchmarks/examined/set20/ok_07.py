"""Fine-grained activation offload with a cap on copies in flight."""
from collections import defaultdict, deque

import torch


class OffloadGroup:
    def __init__(self, name):
        self.name = name
        self.tensors = {}
        self.offload_event = torch.cuda.Event()
        self.reload_event = torch.cuda.Event()


class OffloadManager:
    def __init__(self, device, max_inflight_offloads=1, min_numel=1 << 20):
        self.device = device
        self.d2h_stream = torch.cuda.Stream(device=device)
        self.h2d_stream = torch.cuda.Stream(device=device)
        self.max_inflight = max_inflight_offloads
        self.min_numel = min_numel
        self.pending = defaultdict(deque)
        self.stack = []
        self.current_group = None
        self.host_pool = {}

    def _host_buffer(self, t, key):
        k = (key, t.shape, t.dtype)
        if k not in self.host_pool:
            self.host_pool[k] = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        return self.host_pool[k]

    def group_start(self, name):
        self.current_group = OffloadGroup(name)

    def push(self, t):
        g = self.current_group
        if g is None or t.numel() < self.min_numel:
            return t
        tag = (g, len(g.tensors))
        g.tensors[tag[1]] = t
        return tag

    def group_commit(self):
        g = self.current_group
        depth = len(self.stack)
        self.d2h_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.d2h_stream):
            for i, t in list(g.tensors.items()):
                host = self._host_buffer(t, (depth, i))
                host.copy_(t, non_blocking=True)
                t.record_stream(self.d2h_stream)
                g.tensors[i] = host
            g.offload_event.record(self.d2h_stream)
        self.stack.append(g)
        self.pending[g.name].append(g.offload_event)
        current = torch.cuda.current_stream(self.device)
        while len(self.pending[g.name]) > self.max_inflight:
            current.wait_event(self.pending[g.name].popleft())
        self.current_group = None

    def reload(self, g):
        self.h2d_stream.wait_event(g.offload_event)
        self.h2d_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.h2d_stream):
            for i, host in list(g.tensors.items()):
                g.tensors[i] = host.to(self.device, non_blocking=True)
            g.reload_event.record(self.h2d_stream)

    def pop(self, tag):
        if torch.is_tensor(tag):
            return tag
        g, i = tag
        if self.stack and self.stack[-1] is g:
            self.reload(self.stack.pop())
        current = torch.cuda.current_stream(self.device)
        current.wait_event(g.reload_event)
        t = g.tensors[i]
        t.record_stream(current)
        return t

    def start_step(self):
        self.pending.clear()
        self.d2h_stream.wait_stream(self.h2d_stream)


class Block(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.up = torch.nn.Linear(hidden, 4 * hidden)
        self.down = torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def train(hidden=2048, layers=8, steps=4):
    device = torch.device("cuda", 0)
    blocks = [Block(hidden).to(device) for _ in range(layers)]
    manager = OffloadManager(device)
    for _ in range(steps):
        manager.start_step()
        x = torch.randn(2048, hidden, device=device, requires_grad=True)
        for i, block in enumerate(blocks):
            manager.group_start("mlp")
            with torch.autograd.graph.saved_tensors_hooks(manager.push, manager.pop):
                x = block(x)
            manager.group_commit()
        x.float().pow(2).mean().backward()
