from collections import deque

import torch
import torch.distributed as dist


class KeyedJaggedTensor:
    def __init__(self, values, lengths):
        self.values = values
        self.lengths = lengths

    def to(self, device):
        return KeyedJaggedTensor(
            self.values.pin_memory().to(device, non_blocking=True),
            self.lengths.pin_memory().to(device, non_blocking=True),
        )

    def record_stream(self, stream):
        self.values.record_stream(stream)
        self.lengths.record_stream(stream)

    def clear(self):
        """Gives the device memory back although the batch object is still referenced."""
        self.values.untyped_storage().resize_(0)
        self.lengths.untyped_storage().resize_(0)


class InputDist:
    """Exchanges the ids of a batch so that every rank gets those of its tables."""

    def __init__(self, group):
        self.group = group
        self.world = dist.get_world_size(group)

    def __call__(self, kjt):
        """Runs on the current stream; the splits need one host sync."""
        lengths = torch.empty_like(kjt.lengths)
        dist.all_to_all_single(lengths, kjt.lengths, group=self.group)
        send = kjt.lengths.view(self.world, -1).sum(dim=1)
        recv = lengths.view(self.world, -1).sum(dim=1)
        send_splits, recv_splits = torch.stack([send, recv]).tolist()
        values = torch.empty(sum(recv_splits), dtype=kjt.values.dtype, device=kjt.values.device)
        work = dist.all_to_all_single(
            values, kjt.values, recv_splits, send_splits, group=self.group, async_op=True
        )
        work.wait()
        return KeyedJaggedTensor(values, lengths)


class Context:
    def __init__(self, batch, labels):
        self.batch = batch
        self.labels = labels
        self.sparse = None
        self.ready = None


class TrainPipelineSparseDist:
    def __init__(self, model, optimizer, group, device):
        self.model = model
        self.optimizer = optimizer
        self.input_dist = InputDist(group)
        self.device = device
        self.memcpy_stream = torch.cuda.Stream(device=device, priority=-1)
        self.data_dist_stream = torch.cuda.Stream(device=device, priority=-1)
        self.contexts = deque()

    def _copy(self, loader):
        item = next(loader, None)
        if item is None:
            return
        kjt, labels = item
        with torch.cuda.stream(self.memcpy_stream):
            self.contexts.append(
                Context(kjt.to(self.device), labels.pin_memory().to(self.device, non_blocking=True))
            )

    def _start_data_dist(self, ctx):
        stream = self.data_dist_stream
        stream.wait_stream(self.memcpy_stream)
        with torch.cuda.stream(stream):
            ctx.batch.record_stream(stream)
            ctx.sparse = self.input_dist(ctx.batch)
            ctx.ready = stream.record_event()
        ctx.batch.clear()

    def progress(self, loader):
        while len(self.contexts) < 2:
            before = len(self.contexts)
            self._copy(loader)
            if len(self.contexts) == before:
                break
            if len(self.contexts) == 1:
                self._start_data_dist(self.contexts[0])
        if not self.contexts:
            raise StopIteration
        ctx = self.contexts[0]
        current = torch.cuda.current_stream()
        current.wait_event(ctx.ready)
        current.wait_stream(self.memcpy_stream)
        ctx.sparse.record_stream(current)
        ctx.labels.record_stream(current)
        loss = self.model(ctx.sparse.values, ctx.sparse.lengths, ctx.labels)
        if len(self.contexts) > 1:
            self._start_data_dist(self.contexts[1])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.contexts.popleft()
        return loss.detach()
