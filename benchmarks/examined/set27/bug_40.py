"""Overlap scheduler with a paged KV cache; block tables are shipped to the device every step."""
import collections

import torch


class Request:
    def __init__(self, rid, prompt, max_new):
        self.rid = rid
        self.tokens = list(prompt)
        self.scheduled = len(prompt)
        self.target = len(prompt) + max_new


class KVCacheManagerV2:
    TOKENS_PER_BLOCK = 32

    def __init__(self, num_blocks, max_batch, max_blocks_per_seq, heads, dim):
        self.free = collections.deque(range(num_blocks))
        self.tables = {}
        self.host_kv_cache_block_offsets = torch.zeros(
            max_batch, max_blocks_per_seq, dtype=torch.int32).pin_memory()
        self.pool = torch.zeros(num_blocks, self.TOKENS_PER_BLOCK, heads * dim,
                                device="cuda", dtype=torch.half)

    def add_tokens(self, request):
        table = self.tables.setdefault(request.rid, [])
        need = -(-(request.scheduled + 1) // self.TOKENS_PER_BLOCK)
        while len(table) < need:
            table.append(self.free.popleft())

    def free_resources(self, request):
        self.free.extend(self.tables.pop(request.rid))

    def copy_batch_block_offsets(self, dst, requests):
        for row, request in enumerate(requests):
            table = self.tables[request.rid]
            self.host_kv_cache_block_offsets[row].zero_()
            self.host_kv_cache_block_offsets[row, :len(table)] = torch.tensor(table, dtype=torch.int32)
        n = len(requests)
        dst[:n].copy_(self.host_kv_cache_block_offsets[:n], non_blocking=True)


class Model(torch.nn.Module):
    def __init__(self, vocab=32000, dim=1024):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, dim)
        self.mlp = torch.nn.Sequential(*(torch.nn.Linear(dim, dim) for _ in range(24)))
        self.head = torch.nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens, block_offsets, positions, pool):
        x = self.mlp(self.embed(tokens))
        width = pool.shape[1]
        block = block_offsets.gather(1, (positions // width)[:, None]).squeeze(1).long()
        pool[block, positions % width] = x
        context = pool[block_offsets.long()].mean(dim=(1, 2))
        return self.head(x + context).argmax(dim=-1)


class PyExecutor:
    def __init__(self, model, kv, max_batch):
        self.model, self.kv, self.max_batch = model, kv, max_batch
        self.execution_stream = torch.cuda.Stream()
        shape = kv.host_kv_cache_block_offsets.shape
        self.block_offsets = torch.zeros(shape, dtype=torch.int32, device="cuda")
        self.last_tokens = torch.zeros(max_batch, dtype=torch.long, device="cuda")
        self.new_tokens_host = [torch.zeros(max_batch, dtype=torch.long).pin_memory() for _ in range(2)]
        torch.cuda.synchronize()

    def _forward_step(self, step, requests):
        n = len(requests)
        positions = torch.tensor([r.scheduled for r in requests]).pin_memory()
        with torch.cuda.stream(self.execution_stream):
            self.kv.copy_batch_block_offsets(self.block_offsets, requests)
            pos = positions.to("cuda", non_blocking=True)
            out = self.model(self.last_tokens[:n], self.block_offsets[:n], pos, self.kv.pool)
            self.last_tokens[:n].copy_(out)
            host = self.new_tokens_host[step % 2]
            host[:n].copy_(out, non_blocking=True)
            done = self.execution_stream.record_event()
        return host, done

    @torch.inference_mode()
    def executor_loop_overlap(self, requests):
        previous = None
        step = 0
        while any(r.scheduled < r.target for r in requests):
            for r in requests:
                self.kv.add_tokens(r)
            current = self._forward_step(step, requests)
            for r in requests:
                r.scheduled += 1
            if previous is not None:
                self._process_previous_batch(requests, *previous)
            previous = current
            step += 1
        self._process_previous_batch(requests, *previous)
        for r in requests:
            self.kv.free_resources(r)

    def _process_previous_batch(self, requests, host, done):
        done.synchronize()
        for r, token in zip(requests, host[:len(requests)].tolist()):
            r.tokens.append(token)


def main():
    torch.manual_seed(0)
    kv = KVCacheManagerV2(num_blocks=4096, max_batch=64, max_blocks_per_seq=32, heads=8, dim=128)
    executor = PyExecutor(Model().cuda().half(), kv, max_batch=64)
    requests = [Request(i, range(8), max_new=512) for i in range(64)]
    executor.executor_loop_overlap(requests)
    print(sum(len(r.tokens) for r in requests))


if __name__ == "__main__":
    main()
