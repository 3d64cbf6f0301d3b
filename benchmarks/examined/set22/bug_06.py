"""CPU-to-GPU loads of cached KV blocks for models that zero freshly allocated blocks."""
import torch


class TransferStreams:
    def __init__(self, device):
        self.device = device
        self._streams = []
        self._events = []

    def get(self):
        stream = self._streams.pop() if self._streams else torch.cuda.Stream(self.device)
        event = self._events.pop() if self._events else torch.cuda.Event()
        return stream, event

    def put(self, stream, event):
        self._streams.append(stream)
        self._events.append(event)


class DirectionHandler:
    def __init__(self, src, dst, gpu_to_cpu, device):
        self.src = src
        self.dst = dst
        self.gpu_to_cpu = gpu_to_cpu
        self.device = device
        self.pool = TransferStreams(device)
        self.inflight = {}

    def transfer_async(self, job_id, src_blocks, dst_blocks):
        stream, event = self.pool.get()
        if self.gpu_to_cpu:
            stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for src, dst in zip(self.src, self.dst):
                for s, d in zip(src_blocks, dst_blocks):
                    dst[d].copy_(src[s], non_blocking=True)
            event.record(stream)
        self.inflight[job_id] = (stream, event)

    def poll(self):
        done = [j for j, (_, e) in self.inflight.items() if e.query()]
        for j in done:
            self.pool.put(*self.inflight.pop(j))
        return done


class HybridModelWorker:
    """Runs a model with mamba layers; new blocks must start from zero."""

    def __init__(self, model, num_gpu_blocks, num_cpu_blocks, block_shape, layers, device):
        self.model = model
        self.device = device
        self.gpu = [
            torch.zeros((num_gpu_blocks, *block_shape), dtype=torch.bfloat16, device=device)
            for _ in range(layers)
        ]
        self.cpu = [
            torch.zeros((num_cpu_blocks, *block_shape), dtype=torch.bfloat16, pin_memory=True)
            for _ in range(layers)
        ]
        torch.cuda.synchronize(device)
        self.load = DirectionHandler(self.cpu, self.gpu, False, device)
        self.save = DirectionHandler(self.gpu, self.cpu, True, device)
        self.waiting = {}

    def zero_blocks(self, block_ids):
        idx = torch.tensor(block_ids, device=self.device)
        for cache in self.gpu:
            cache.index_fill_(0, idx, 0)

    @torch.inference_mode()
    def step(self, out):
        if out.new_block_ids:
            self.zero_blocks(out.new_block_ids)
        for req in out.cache_hits:
            self.load.transfer_async(req.id, req.cpu_blocks, req.gpu_blocks)
            self.waiting[req.id] = req
        for req_id in self.load.poll():
            out.runnable.append(self.waiting.pop(req_id))
        sampled = None
        if out.runnable:
            sampled = self.model(out.runnable, self.gpu)
        for req in out.evictions:
            self.save.transfer_async(req.id, req.gpu_blocks, req.cpu_blocks)
        out.saved.extend(self.save.poll())
        return sampled
