from contextlib import contextmanager

import torch


class OverlapStage:
    """Runs `forward` on its own stream against buffers owned by the scheduler."""

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self._write_done = torch.cuda.Event()
        self._read_done = torch.cuda.Event()

    @contextmanager
    def begin_update(self):
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self._read_done)
        yield
        self._write_done.record(current)

    def run(self, *args):
        self.stream.wait_event(self._write_done)
        with torch.cuda.stream(self.stream):
            out = self.forward(*args)
            self._read_done.record(self.stream)
        return out

    def forward(self, *args):
        raise NotImplementedError


class DecodeStage(OverlapStage):

    def __init__(self, model, req_to_token, seq_lens, device):
        super().__init__(device)
        self.model = model
        self.req_to_token = req_to_token
        self.seq_lens = seq_lens
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.stream):
            self.last_ids = torch.zeros_like(seq_lens)

    def forward(self, step):
        logits = self.model(self.last_ids, self.seq_lens, self.req_to_token)
        ids = logits.argmax(dim=-1)
        self.last_ids.copy_(ids)
        host = torch.empty(ids.shape, dtype=ids.dtype, pin_memory=True)
        host.copy_(ids, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        return step, host, done


class Scheduler:

    def __init__(self, stage, allocator):
        self.stage = stage
        self.allocator = allocator

    @torch.inference_mode()
    def loop(self, steps):
        rows = torch.arange(self.stage.seq_lens.numel(), device=self.stage.device)
        previous, outputs = None, []
        for step in range(steps):
            slots = self.allocator.alloc(rows.numel())
            with self.stage.begin_update():
                self.stage.req_to_token[rows, self.stage.seq_lens] = slots
                self.stage.seq_lens.add_(1)
            current = self.stage.run(step)
            if previous is not None:
                _, host, done = previous
                done.synchronize()
                outputs.append(host.tolist())
            previous = current
        _, host, done = previous
        done.synchronize()
        outputs.append(host.tolist())
        return outputs
