import torch
import torch.distributed as dist
import torch.nn.functional as F


class TwRwOutputDistAwaitable:
    """Pooled embeddings that travel through two collectives on a side stream."""

    def __init__(self, result, event, keep_alive):
        self._result = result
        self._event = event
        self._keep_alive = keep_alive

    def wait(self):
        current = torch.cuda.current_stream()
        current.wait_event(self._event)
        self._result.record_stream(current)
        result = self._result
        self._result = None
        self._keep_alive = None
        return result


class TwRwOutputDist:
    """Reduce-scatter inside the node, decode, all-to-all across the nodes."""

    def __init__(self, intra_group, cross_group):
        self.intra_group = intra_group
        self.cross_group = cross_group
        self.local = dist.get_world_size(intra_group)
        self.side_stream = torch.cuda.Stream()

    def start(self, pooled, scale):
        batch, dim = pooled.shape
        encoded = (pooled * scale).to(torch.bfloat16)
        shard = torch.empty(batch // self.local, dim, dtype=torch.bfloat16, device=pooled.device)
        work = dist.reduce_scatter_tensor(shard, encoded, group=self.intra_group, async_op=True)
        self.side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side_stream):
            work.wait()
            decoded = shard.float() / scale
            result = torch.empty_like(decoded)
            work = dist.all_to_all_single(result, decoded, group=self.cross_group, async_op=True)
            work.wait()
            event = self.side_stream.record_event()
        return TwRwOutputDistAwaitable(result, event, (encoded, shard, decoded, scale))


class ShardedEmbeddings(torch.nn.Module):
    """Table-wise row-wise tables first, row-wise tables under their communication."""

    def __init__(self, twrw_rows, rw_rows, dim, intra_group, cross_group):
        super().__init__()
        self.twrw = torch.nn.Parameter(torch.randn(twrw_rows, dim, device="cuda"))
        self.rw = torch.nn.Parameter(torch.randn(rw_rows, dim, device="cuda"))
        self.scale = torch.full((), 64.0, device="cuda")
        self.output_dist = TwRwOutputDist(intra_group, cross_group)
        self.cross_group = cross_group

    @torch.no_grad()
    def forward(self, twrw_ids, twrw_offsets, rw_ids, rw_offsets):
        pooled = F.embedding_bag(twrw_ids, self.twrw, twrw_offsets, mode="sum")
        awaitable = self.output_dist.start(pooled, self.scale)
        del pooled
        rw = F.embedding_bag(rw_ids, self.rw, rw_offsets, mode="sum")
        dist.all_reduce(rw, group=self.cross_group)
        twrw = awaitable.wait()
        return twrw, rw


class Predictor:
    def __init__(self, embeddings, over):
        self.embeddings = embeddings
        self.over = over

    @torch.no_grad()
    def predict(self, batches):
        scores = []
        for batch in batches:
            batch = {k: v.pin_memory().to("cuda", non_blocking=True) for k, v in batch.items()}
            twrw, rw = self.embeddings(
                batch["twrw_ids"], batch["twrw_offsets"], batch["rw_ids"], batch["rw_offsets"]
            )
            features = torch.cat([twrw, rw[: twrw.shape[0]]], dim=1)
            scores.append(torch.sigmoid(self.over(features)))
        return torch.cat(scores).cpu()
