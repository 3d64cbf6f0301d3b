import queue
import threading
import time

import torch


class KVOffloadDaemon:
    """Moves finished KV blocks to host memory on a side stream."""

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.jobs = queue.Queue()
        self.host_blocks = {}
        self.in_flight = []
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()

    def submit(self, block_id, block):
        ready = torch.cuda.Event()
        ready.record()
        self.jobs.put((block_id, block, ready))

    def _run(self):
        torch.cuda.set_device(self.device)
        while not self._stop.is_set():
            try:
                block_id, block, ready = self.jobs.get(timeout=0.001)
            except queue.Empty:
                self._reap()
                continue
            host = torch.empty(block.shape, dtype=block.dtype, pin_memory=True)
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(ready)
                packed = block.transpose(0, 1).contiguous()
                host.copy_(packed, non_blocking=True)
                done = torch.cuda.Event()
                done.record(self.stream)
            self.in_flight.append((done, block_id, block, host))
            self._reap()

    def _reap(self):
        while self.in_flight and self.in_flight[0][0].query():
            _, block_id, _, host = self.in_flight.pop(0)
            self.host_blocks[block_id] = host

    def stop(self):
        self._stop.set()
        self.thread.join()


class CudaGraphManager:
    def __init__(self, model, sizes, device):
        self.model = model
        self.sizes = sorted(sizes, reverse=True)
        self.device = device
        self.input_ids = torch.zeros(self.sizes[0], dtype=torch.long, device=device)
        self.graphs = {}
        self.hidden = {}
        self.pool = None

    @torch.inference_mode()
    def capture_graph(self, size):
        self.model(self.input_ids[:size])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.hidden[size] = self.model(self.input_ids[:size])
        self.pool = graph.pool()
        self.graphs[size] = graph

    def capture(self):
        start = time.perf_counter()
        for size in self.sizes:
            self.capture_graph(size)
        torch.cuda.synchronize()
        return time.perf_counter() - start


def start_worker(model, sizes, kv_cache, restored_blocks, device):
    daemon = KVOffloadDaemon(device)
    daemon.start()
    for block_id in restored_blocks:
        daemon.submit(block_id, kv_cache[block_id])
    manager = CudaGraphManager(model, sizes, device)
    elapsed = manager.capture()
    return manager, daemon, elapsed
