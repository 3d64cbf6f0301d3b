"""Exchange of ragged embedding inputs; split sizes go through a list on the host."""
import torch
import torch.distributed as dist


class SizeReader:
    """Reads small device tensors without draining the main stream."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)
        self.pinned = {}

    def to_list(self, tensor):
        key = (tensor.numel(), tensor.dtype)
        host = self.pinned.get(key)
        if host is None:
            host = torch.empty(tensor.numel(), dtype=tensor.dtype, pin_memory=True)
            self.pinned[key] = host
        with torch.cuda.stream(self.stream):
            host.copy_(tensor.reshape(-1), non_blocking=True)
        self.stream.synchronize()
        return host.tolist()


class RaggedExchange:
    def __init__(self, group=None, device=None):
        self.group = group
        self.device = device or torch.device("cuda", torch.cuda.current_device())
        self.world = dist.get_world_size(group)
        self.reader = SizeReader(self.device)

    def _splits(self, lengths):
        sent = lengths.view(self.world, -1).sum(dim=1)
        received = torch.empty_like(sent)
        work = dist.all_to_all_single(received, sent, group=self.group, async_op=True)
        work.wait()
        both = torch.cat([sent, received])
        sizes = self.reader.to_list(both)
        return sizes[:self.world], sizes[self.world:]

    def __call__(self, values, lengths):
        in_splits, out_splits = self._splits(lengths)
        out_lengths = torch.empty_like(lengths)
        dist.all_to_all_single(out_lengths, lengths, group=self.group)
        out = values.new_empty((sum(out_splits), *values.shape[1:]))
        dist.all_to_all_single(out, values, out_splits, in_splits, group=self.group)
        return out, out_lengths


class ShardedBag(torch.nn.Module):
    def __init__(self, rows, dim, features, group=None):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(rows, dim, device="cuda") * 0.01)
        self.features = features
        self.exchange = RaggedExchange(group)

    def forward(self, values, lengths):
        ids, counts = self.exchange(values, lengths)
        offsets = torch.zeros_like(counts)
        torch.cumsum(counts[:-1], dim=0, out=offsets[1:])
        return torch.nn.functional.embedding_bag(
            ids % self.table.shape[0], self.table, offsets, mode="sum"
        )
