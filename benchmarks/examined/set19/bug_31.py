"""Fine-grained activation offloading per layer group with grouped prefetch."""
import torch
from torch import nn


class OffloadTensorGroup:
    def __init__(self, index):
        self.index = index
        self.states = {}
        self.offload_event = torch.cuda.Event()
        self.reload_event = torch.cuda.Event()
        self.reloaded = False

    def push(self, tag, tensor):
        self.states[tag] = tensor


class ChunkOffloadHandler:
    """Moves the saved tensors of a model chunk to pinned memory and back."""

    def __init__(self, min_numel=1 << 16):
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self.min_numel = min_numel
        self.is_warmup = True
        self.reset()

    def reset(self):
        self.groups = []
        self.open_group = None
        self.counter = 0

    def offload(self, src):
        cpu = torch.empty(src.shape, dtype=src.dtype, pin_memory=True)
        cpu.copy_(src, non_blocking=True)
        return ("cpu", cpu)

    def reload(self, state):
        _, cpu = state
        gpu = torch.empty(cpu.shape, dtype=cpu.dtype, device="cuda")
        gpu.copy_(cpu, non_blocking=True)
        return gpu

    def bulk_offload_group(self, group):
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            for tag, tensor in group.states.items():
                group.states[tag] = self.offload(tensor)
                tensor.record_stream(self.d2h_stream)
            group.offload_event.record(self.d2h_stream)

    def bulk_reload_group(self, group):
        self.h2d_stream.wait_event(group.offload_event)
        with torch.cuda.stream(self.h2d_stream):
            for tag, state in group.states.items():
                group.states[tag] = self.reload(state)
            group.reload_event.record(self.h2d_stream)
        group.reloaded = True

    def start_group(self):
        self.open_group = OffloadTensorGroup(len(self.groups))
        self.groups.append(self.open_group)

    def commit_group(self):
        self.bulk_offload_group(self.open_group)
        self.open_group = None

    def pre_reload(self, index):
        if not self.is_warmup and 0 <= index < len(self.groups):
            if not self.groups[index].reloaded:
                self.bulk_reload_group(self.groups[index])

    def tensor_push(self, tensor):
        if self.open_group is None or tensor.numel() < self.min_numel \
                or isinstance(tensor, nn.Parameter) or not tensor.is_cuda:
            return tensor
        self.counter += 1
        self.open_group.push(self.counter, tensor)
        return (self.open_group.index, self.counter)

    def tensor_pop(self, saved):
        if not isinstance(saved, tuple):
            return saved
        index, tag = saved
        group = self.groups[index]
        self.pre_reload(index - 1)
        state = group.states.pop(tag)
        if isinstance(state, tuple):
            return self.reload(state)
        current = torch.cuda.current_stream()
        current.wait_event(group.reload_event)
        state.record_stream(current)
        return state


def train(blocks, handler, optimizer, batches):
    losses = []
    for step, x in enumerate(batches):
        handler.is_warmup = step == 0
        with torch.autograd.graph.saved_tensors_hooks(handler.tensor_push, handler.tensor_pop):
            for block in blocks:
                handler.start_group()
                x = x + block(x)
                handler.commit_group()
        loss = x.square().mean()
        handler.pre_reload(len(blocks) - 1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        handler.reset()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(6)).cuda()
    opt = torch.optim.SGD(layers.parameters(), lr=1e-3)
    data = [torch.randn(4096, 1024, device="cuda") for _ in range(4)]
    print(train(layers, ChunkOffloadHandler(), opt, data))
