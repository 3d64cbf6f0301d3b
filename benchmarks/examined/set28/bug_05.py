import numpy as np
import torch
import torch.distributed as dist


class InputBuffers:
    def __init__(self, max_tokens, max_reqs):
        pin = dict(pin_memory=True)
        self.seq_lens_cpu = torch.zeros(max_reqs, dtype=torch.int32, **pin)
        self.query_start_loc_cpu = torch.zeros(max_reqs + 1, dtype=torch.int32, **pin)
        self.slot_mapping_cpu = torch.zeros(max_tokens, dtype=torch.int64, **pin)
        self.seq_lens = torch.zeros(max_reqs, dtype=torch.int32, device="cuda")
        self.query_start_loc = torch.zeros(max_reqs + 1, dtype=torch.int32, device="cuda")
        self.slot_mapping = torch.zeros(max_tokens, dtype=torch.int64, device="cuda")

    def commit(self, num_reqs, num_tokens):
        self.seq_lens[:num_reqs].copy_(self.seq_lens_cpu[:num_reqs], non_blocking=True)
        self.query_start_loc[: num_reqs + 1].copy_(self.query_start_loc_cpu[: num_reqs + 1], non_blocking=True)
        self.slot_mapping[:num_tokens].copy_(self.slot_mapping_cpu[:num_tokens], non_blocking=True)


class MoEModelRunner:
    """One data-parallel worker; idle workers run dummy steps to keep the expert all-to-all going."""

    def __init__(self, model, max_tokens=8192, max_reqs=256, dp_group=None):
        self.model = model
        self.buffers = InputBuffers(max_tokens, max_reqs)
        self.prepare_inputs_event = torch.cuda.Event()
        self.dp_group = dp_group

    def _coordinate(self, num_tokens):
        t = torch.tensor([num_tokens], dtype=torch.int32)
        dist.all_reduce(t, op=dist.ReduceOp.MAX, group=self.dp_group)
        return int(t.item())

    @torch.inference_mode()
    def execute_model(self, batch):
        self.prepare_inputs_event.synchronize()
        b = self.buffers
        lens = np.asarray([r.num_computed + r.num_new for r in batch], dtype=np.int32)
        news = np.asarray([r.num_new for r in batch], dtype=np.int32)
        total = int(news.sum())
        b.seq_lens_cpu.numpy()[: len(batch)] = lens
        b.query_start_loc_cpu.numpy()[1 : len(batch) + 1] = np.cumsum(news)
        offset = 0
        for r in batch:
            b.slot_mapping_cpu.numpy()[offset : offset + r.num_new] = r.slots()
            offset += r.num_new
        b.commit(len(batch), total)
        self.prepare_inputs_event.record()
        padded = self._coordinate(total)
        return self.model(b.slot_mapping[:total], b.seq_lens, b.query_start_loc, padded)

    @torch.inference_mode()
    def _dummy_run(self, num_tokens):
        b = self.buffers
        num_reqs = min(num_tokens, b.seq_lens_cpu.numel())
        per_req = num_tokens // num_reqs
        b.seq_lens_cpu[:num_reqs] = per_req
        b.query_start_loc_cpu[1 : num_reqs + 1] = torch.arange(1, num_reqs + 1, dtype=torch.int32) * per_req
        b.slot_mapping_cpu[:num_tokens] = -1
        b.commit(num_reqs, num_tokens)
        padded = self._coordinate(num_tokens)
        return self.model(b.slot_mapping[:num_tokens], b.seq_lens, b.query_start_loc, padded)


def busy_loop(runner, scheduler):
    pending = []
    while True:
        batch = scheduler.schedule()
        if batch is None:
            break
        if batch:
            pending.append(runner.execute_model(batch))
        elif scheduler.other_ranks_busy():
            runner._dummy_run(1 if scheduler.decode_only() else 64)
        if len(pending) > 1:
            scheduler.process(pending.pop(0).tolist())
    for out in pending:
        scheduler.process(out.tolist())
