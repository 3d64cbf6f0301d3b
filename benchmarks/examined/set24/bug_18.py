from dataclasses import dataclass, field

import torch


@dataclass
class SchedulerOutput:
    zero_block_ids: list = field(default_factory=list)
    loads: list = field(default_factory=list)
    stores: list = field(default_factory=list)
    tokens: torch.Tensor = None
    block_table: torch.Tensor = None


class SingleDirectionOffloadingHandler:
    """One transfer direction between the GPU blocks and the pinned CPU blocks."""

    def __init__(self, src, dst, gpu_to_cpu):
        self.src, self.dst = src, dst
        self.gpu_to_cpu = gpu_to_cpu
        self.stream = torch.cuda.Stream()
        self.transfers = []
        self.last_event = None

    def transfer_async(self, job_id, pairs):
        stream = self.stream
        if self.gpu_to_cpu:
            stream.wait_stream(torch.cuda.current_stream())
        if self.last_event is not None:
            stream.wait_event(self.last_event)
        with torch.cuda.stream(stream):
            for s, d in pairs:
                self.dst[d].copy_(self.src[s], non_blocking=True)
            end = torch.cuda.Event()
            end.record(stream)
        self.last_event = end
        self.transfers.append((job_id, end))

    def get_finished(self):
        done, keep = [], []
        for job_id, event in self.transfers:
            if event.query():
                done.append(job_id)
            else:
                keep.append((job_id, event))
        self.transfers = keep
        return done


class OffloadingWorker:
    def __init__(self, gpu_blocks, cpu_blocks):
        self.store = SingleDirectionOffloadingHandler(gpu_blocks, cpu_blocks, gpu_to_cpu=True)
        self.load = SingleDirectionOffloadingHandler(cpu_blocks, gpu_blocks, gpu_to_cpu=False)

    def start(self, out: SchedulerOutput):
        for job_id, pairs in out.loads:
            self.load.transfer_async(job_id, pairs)

    def finish(self, out: SchedulerOutput):
        for job_id, pairs in out.stores:
            self.store.transfer_async(job_id, pairs)


class ModelRunner:
    """Async scheduling: steps are enqueued ahead of the device."""

    def __init__(self, model, num_blocks, num_cpu_blocks, block_elems, device="cuda"):
        self.model = model
        self.gpu_blocks = torch.empty((num_blocks, block_elems), dtype=torch.bfloat16, device=device)
        cpu = torch.empty((num_cpu_blocks, block_elems), dtype=torch.bfloat16).pin_memory()
        self.worker = OffloadingWorker(self.gpu_blocks, cpu)
        torch.cuda.synchronize()

    @torch.inference_mode()
    def execute(self, out: SchedulerOutput):
        if out.zero_block_ids:
            ids = torch.tensor(out.zero_block_ids, dtype=torch.int64).pin_memory()
            ids = ids.to(self.gpu_blocks.device, non_blocking=True)
            self.gpu_blocks.index_fill_(0, ids, 0)
        self.worker.start(out)
        result = None
        if out.tokens is not None:
            result = self.model(out.tokens, self.gpu_blocks, out.block_table)
        self.worker.finish(out)
        return result


def engine_loop(runner, scheduler, on_tokens):
    """A request whose load job finished is scheduled in a later step."""
    pending = None
    while scheduler.has_work():
        out = scheduler.schedule()
        result = runner.execute(out)
        scheduler.loads_finished(runner.worker.load.get_finished())
        scheduler.stores_finished(runner.worker.store.get_finished())
        if pending is not None:
            on_tokens(pending.argmax(-1).tolist())
        pending = result
    if pending is not None:
        on_tokens(pending.argmax(-1).tolist())
