"""Pipeline-parallel scheduler: graph splits on several devices with rotating input copies."""
import torch

N_COPIES = 4


class Backend:
    """A device with the stream that runs its splits."""

    def __init__(self, index):
        self.device = torch.device("cuda", index)
        self.stream = torch.cuda.Stream(device=self.device)


class Split:
    """Part of the graph on one backend, with N_COPIES input tensors."""

    def __init__(self, backend, module, batch, dim):
        self.backend = backend
        self.module = module.to(backend.device)
        self.inputs = [torch.zeros(batch, dim, device=backend.device) for _ in range(N_COPIES)]
        self.outputs = [torch.zeros(batch, dim, device=backend.device) for _ in range(N_COPIES)]
        self.consumed = [None] * N_COPIES
        self.sent = [None] * N_COPIES

    def compute(self, copy):
        stream = self.backend.stream
        if self.sent[copy] is not None:
            stream.wait_event(self.sent[copy])
        with torch.cuda.device(self.backend.device), torch.cuda.stream(stream):
            self.outputs[copy].copy_(self.module(self.inputs[copy]))
        self.consumed[copy] = stream.record_event()


class Scheduler:
    def __init__(self, splits):
        self.splits = splits
        self.cur_copy = 0
        for split in splits:
            torch.cuda.synchronize(split.backend.device)

    def _copy_between(self, src, dst, copy):
        """Queue the copy of a split's output into the next split's input."""
        src_stream, dst_stream = src.backend.stream, dst.backend.stream
        if dst.consumed[copy] is not None:
            src_stream.wait_event(dst.consumed[copy])
        with torch.cuda.device(src.backend.device), torch.cuda.stream(src_stream):
            dst.inputs[copy].copy_(src.outputs[copy], non_blocking=True)
        done = src_stream.record_event()
        src.sent[copy] = done
        dst_stream.wait_event(done)

    @torch.no_grad()
    def graph_compute(self, host_batch, result):
        copy = self.cur_copy
        self.cur_copy = (copy + 1) % N_COPIES
        first, last = self.splits[0], self.splits[-1]
        with torch.cuda.device(first.backend.device), torch.cuda.stream(first.backend.stream):
            first.inputs[copy].copy_(host_batch, non_blocking=True)
        first.compute(copy)
        for src, dst in zip(self.splits, self.splits[1:]):
            self._copy_between(src, dst, copy)
            dst.compute(copy)
        with torch.cuda.device(last.backend.device), torch.cuda.stream(last.backend.stream):
            result.copy_(last.outputs[copy], non_blocking=True)
        return last.backend.stream.record_event()


def decode(modules, batches, dim):
    """Run pinned host batches through the pipeline; one result for each batch."""
    batch = batches[0].shape[0]
    splits = [Split(Backend(i), m, batch, dim) for i, m in enumerate(modules)]
    sched = Scheduler(splits)
    pinned = [b.pin_memory() for b in batches]
    results = [torch.empty(batch, dim, pin_memory=True) for _ in batches]
    events = [sched.graph_compute(b, r) for b, r in zip(pinned, results)]
    sums = []
    for event, result in zip(events, results):
        event.synchronize()
        sums.append(result.sum().item())
    return sums
