import torch


class BlockPool:
    """Contiguous paged KV cache: [num_layers, num_blocks, 2, block_size, heads, dim]."""

    def __init__(self, num_layers, num_blocks, block_size, heads, dim, device, dtype):
        shape = (num_layers, num_blocks, 2, block_size, heads, dim)
        self.gpu = torch.zeros(shape, device=device, dtype=dtype)

    def flat(self):
        return self.gpu.view(self.gpu.shape[0], self.gpu.shape[1], -1)


class SimpleCPUOffloadWorker:
    def __init__(self, pool: BlockPool, num_cpu_blocks: int):
        self.pool = pool
        flat = pool.flat()
        self.cpu = torch.empty(
            (flat.shape[0], num_cpu_blocks, flat.shape[2]), dtype=flat.dtype, pin_memory=True
        )
        self.store_stream = torch.cuda.Stream()
        self.load_stream = torch.cuda.Stream()
        self.pending_stores = []

    def start_store(self, pairs):
        """Copy confirmed GPU blocks to their CPU slots."""
        if not pairs:
            return
        flat = self.pool.flat()
        with torch.cuda.stream(self.store_stream):
            for gpu_block, cpu_block in pairs:
                for layer in range(flat.shape[0]):
                    self.cpu[layer, cpu_block].copy_(flat[layer, gpu_block], non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.store_stream)
        self.pending_stores.append((done, [c for _, c in pairs]))

    def poll_stores(self):
        finished = []
        keep = []
        for done, cpu_blocks in self.pending_stores:
            if done.query():
                finished.extend(cpu_blocks)
            else:
                keep.append((done, cpu_blocks))
        self.pending_stores = keep
        return finished

    def start_load(self, pairs):
        flat = self.pool.flat()
        compute = torch.cuda.current_stream()
        self.load_stream.wait_stream(compute)
        with torch.cuda.stream(self.load_stream):
            for cpu_block, gpu_block in pairs:
                for layer in range(flat.shape[0]):
                    flat[layer, gpu_block].copy_(self.cpu[layer, cpu_block], non_blocking=True)
        compute.wait_stream(self.load_stream)


def run_layer(pool, layer, hidden, wkv, slots):
    block_size = pool.gpu.shape[3]
    kv = (hidden @ wkv).view(hidden.shape[0], 2, pool.gpu.shape[4], pool.gpu.shape[5])
    pool.gpu[layer, slots // block_size, :, slots % block_size] = kv
    return torch.nn.functional.silu(hidden)


def serve(steps, pool, wkvs, worker):
    deferred = []
    for hidden, slots, new_blocks, load_pairs in steps:
        if load_pairs:
            worker.start_load(load_pairs)
        for layer, wkv in enumerate(wkvs):
            hidden = run_layer(pool, layer, hidden, wkv, slots)
        worker.start_store(deferred)
        deferred = new_blocks
        worker.poll_stores()
    worker.start_store(deferred)
    torch.cuda.synchronize()
    return worker.poll_stores()
