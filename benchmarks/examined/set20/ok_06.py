"""Paged KV cache engine with layer-wise swapping on its own stream."""
import torch


class CacheEngine:
    def __init__(self, num_layers, num_gpu_blocks, num_cpu_blocks, block_numel, device):
        self.num_layers = num_layers
        self.gpu_cache = [
            torch.zeros(num_gpu_blocks, block_numel, dtype=torch.float16, device=device)
            for _ in range(num_layers)
        ]
        self.cpu_cache = [
            torch.zeros(num_cpu_blocks, block_numel, dtype=torch.float16, pin_memory=True)
            for _ in range(num_layers)
        ]
        self.cache_stream = torch.cuda.Stream(device=device)
        self.events = [torch.cuda.Event() for _ in range(num_layers)]

    def _swap(self, src, dst, mapping):
        self.cache_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.cache_stream):
            for i in range(self.num_layers):
                for src_block, dst_block in mapping.items():
                    dst[i][dst_block].copy_(src[i][src_block], non_blocking=True)
                self.events[i].record(self.cache_stream)

    def swap_in(self, mapping):
        self._swap(self.cpu_cache, self.gpu_cache, mapping)

    def swap_out(self, mapping):
        self._swap(self.gpu_cache, self.cpu_cache, mapping)


class PagedAttentionLayer(torch.nn.Module):
    def __init__(self, hidden, block_size):
        super().__init__()
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.block_size = block_size
        self.hidden = hidden

    def forward(self, x, cache, slot_block, slot_offset, block_table, cache_event):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if cache_event is not None:
            cache_event.wait()
        kv = cache.view(cache.shape[0], 2, self.block_size, self.hidden)
        kv[slot_block, 0, slot_offset] = k
        kv[slot_block, 1, slot_offset] = v
        keys = kv[block_table, 0].flatten(1, 2)
        values = kv[block_table, 1].flatten(1, 2)
        out = torch.nn.functional.scaled_dot_product_attention(
            q.unsqueeze(1), keys, values
        )
        return x + out.squeeze(1)


class Worker:
    def __init__(self, cfg, device):
        self.device = device
        self.layers = [
            PagedAttentionLayer(cfg.hidden, cfg.block_size).half().to(device)
            for _ in range(cfg.num_layers)
        ]
        self.cache_engine = CacheEngine(
            cfg.num_layers, cfg.gpu_blocks, cfg.cpu_blocks,
            2 * cfg.block_size * cfg.hidden, device,
        )

    @torch.inference_mode()
    def execute_model(self, x, meta, blocks_to_swap_in, blocks_to_swap_out):
        issued = False
        if blocks_to_swap_out:
            self.cache_engine.swap_out(blocks_to_swap_out)
            issued = True
        if blocks_to_swap_in:
            self.cache_engine.swap_in(blocks_to_swap_in)
            issued = True
        events = self.cache_engine.events if issued else None
        for i, layer in enumerate(self.layers):
            x = layer(
                x, self.cache_engine.gpu_cache[i], meta.slot_block, meta.slot_offset,
                meta.block_table, events[i] if events is not None else None,
            )
        return x


def run(cfg, scheduler, embed):
    device = torch.device("cuda", 0)
    worker = Worker(cfg, device)
    while scheduler.has_unfinished():
        meta, swap_in, swap_out = scheduler.schedule()
        hidden = worker.execute_model(embed(meta.tokens), meta, swap_in, swap_out)
        scheduler.append(hidden.argmax(dim=-1).tolist())
