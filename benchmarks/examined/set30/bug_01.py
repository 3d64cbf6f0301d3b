"""CPU tier for a paged KV cache: finished blocks go down, prefix hits come back up."""
from dataclasses import dataclass, field

import torch


@dataclass
class StepPlan:
    load: list = field(default_factory=list)     # (cpu_block, gpu_block)
    store: list = field(default_factory=list)    # (gpu_block, cpu_block)


class KVPool:
    def __init__(self, blocks, block_size, heads, dim, device):
        shape = (blocks, 2, block_size, heads, dim)
        self.gpu = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self.free = list(range(blocks))

    def take(self):
        return self.free.pop()

    def give(self, ids):
        self.free.extend(ids)


class CopyBackend:
    def __init__(self, pool, cpu_blocks):
        self.pool = pool
        self.cpu = torch.zeros((cpu_blocks,) + tuple(pool.gpu.shape[1:]),
                               dtype=pool.gpu.dtype, pin_memory=True)
        low = torch.cuda.Stream.priority_range()[0]
        self.load_stream = torch.cuda.Stream(priority=low)
        self.store_stream = torch.cuda.Stream(priority=low)
        self._compute_done = torch.cuda.Event()
        self._pending_loads = {}

    def launch(self, step, plan):
        if plan.load:
            self.load_stream.wait_stream(self.store_stream)
            with torch.cuda.stream(self.load_stream):
                for src, dst in plan.load:
                    self.pool.gpu[dst].copy_(self.cpu[src], non_blocking=True)
                done = torch.cuda.Event()
                done.record()
            self._pending_loads[step] = done
        if plan.store:
            self._compute_done.record()
            self.store_stream.wait_event(self._compute_done)
            with torch.cuda.stream(self.store_stream):
                for src, dst in plan.store:
                    self.cpu[dst].copy_(self.pool.gpu[src], non_blocking=True)
            torch.cuda.current_stream().wait_stream(self.store_stream)

    def finish_loads(self, step):
        done = self._pending_loads.pop(step, None)
        if done is not None:
            torch.cuda.current_stream().wait_event(done)


class Worker:
    def __init__(self, model, pool, backend):
        self.model = model
        self.pool = pool
        self.backend = backend
        self.step = 0

    @torch.inference_mode()
    def execute(self, tokens, tables, finished, hits, keep=()):
        """One step. ``finished``: blocks of requests that reach their length limit in this step."""
        self.backend.finish_loads(self.step)
        logits = self.model(tokens, self.pool.gpu, tables)
        self.pool.give(finished)
        plan = StepPlan([(cpu_id, self.pool.take()) for cpu_id in hits], list(keep))
        self.step += 1
        self.backend.launch(self.step, plan)
        return logits, [dst for _, dst in plan.load]


class Attention(torch.nn.Module):
    def __init__(self, heads, dim, vocab):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, heads * dim, dtype=torch.bfloat16)
        self.heads, self.dim = heads, dim

    def forward(self, tokens, kv, tables):
        q = self.embed(tokens).view(-1, self.heads, 1, self.dim)
        pages = kv[tables]
        k, v = pages[:, :, 0].flatten(1, 2), pages[:, :, 1].flatten(1, 2)
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k.transpose(1, 2), v.transpose(1, 2))
        return out.flatten(1) @ self.embed.weight.t()


def serve(batches, device="cuda"):
    pool = KVPool(4096, 16, 8, 128, device)
    worker = Worker(Attention(8, 128, 32000).to(device), pool, CopyBackend(pool, 16384))
    outs = []
    for tokens, tables, finished, hits in batches:
        logits, landed = worker.execute(tokens, tables, finished, hits)
        outs.append((logits.argmax(-1), landed))
    return outs
