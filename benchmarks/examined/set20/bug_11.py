"""Worker-side CPU offloading of KV blocks."""
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch


@dataclass
class TransferSpec:
    src_blocks: list
    dst_blocks: list
    to_cpu: bool


@dataclass
class TransferJob:
    job_id: int
    spec: TransferSpec
    ready: torch.cuda.Event = field(default=None)


def swap_blocks(src, dst, mapping):
    for s, d in mapping:
        dst[d].copy_(src[s], non_blocking=True)


class CpuGpuSwapHandler:
    def __init__(self, gpu_caches, num_cpu_blocks, device):
        self.device = device
        self.gpu_caches = gpu_caches
        self.cpu_caches = [
            torch.zeros((num_cpu_blocks, *c.shape[1:]), dtype=c.dtype, pin_memory=True)
            for c in gpu_caches
        ]
        self.d2h_stream = torch.cuda.Stream(device=device)
        self.h2d_stream = torch.cuda.Stream(device=device)

    def transfer(self, job):
        spec = job.spec
        mapping = list(zip(spec.src_blocks, spec.dst_blocks))
        stream = self.d2h_stream if spec.to_cpu else self.h2d_stream
        stream.wait_event(job.ready)
        with torch.cuda.stream(stream):
            for gpu, cpu in zip(self.gpu_caches, self.cpu_caches):
                if spec.to_cpu:
                    swap_blocks(gpu, cpu, mapping)
                else:
                    swap_blocks(cpu, gpu, mapping)
        return True


class OffloadingWorker:
    """Runs transfer functions on a thread and reports finished jobs."""

    def __init__(self, handler):
        self.handler = handler
        self.submissions = queue.Queue()
        self.finished = queue.Queue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def transfer_async(self, job):
        job.ready = torch.cuda.current_stream().record_event()
        self.submissions.put(job)

    def _run(self):
        torch.cuda.set_device(self.handler.device)
        while True:
            job = self.submissions.get()
            if job is None:
                return
            success = self.handler.transfer(job)
            self.finished.put((job, success))

    def get_finished(self):
        done = []
        while not self.finished.empty():
            done.append(self.finished.get())
        return done


class SecondaryTier:
    """Writes offloaded blocks to storage in the background."""

    def __init__(self, root, cpu_caches):
        self.root = root
        self.cpu_caches = cpu_caches
        self.pool = ThreadPoolExecutor(4)

    def store(self, block_id, key):
        def write():
            data = torch.stack([c[block_id] for c in self.cpu_caches])
            torch.save(data, f"{self.root}/{key}.pt")
        return self.pool.submit(write)


def engine_loop(model, gpu_caches, scheduler, root):
    handler = CpuGpuSwapHandler(gpu_caches, 4096, torch.device("cuda", 0))
    worker = OffloadingWorker(handler)
    tier = SecondaryTier(root, handler.cpu_caches)
    while scheduler.has_work():
        batch = scheduler.schedule()
        model(batch, gpu_caches)
        for job_id, spec in scheduler.blocks_to_store():
            worker.transfer_async(TransferJob(job_id, spec))
        for job, ok in worker.get_finished():
            scheduler.complete(job.job_id, ok)
            for block in job.spec.dst_blocks:
                tier.store(block, scheduler.key_of(job.job_id, block))
    worker.submissions.put(None)
    worker.thread.join()
