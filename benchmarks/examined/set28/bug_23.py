import numpy as np
import torch


class InputBatch:
    def __init__(self, max_reqs, max_len):
        self.req_ids = [None] * max_reqs
        self.num_reqs = 0
        self.index = {}
        self.tokens = np.zeros((max_reqs, max_len), dtype=np.int64)
        self.num_computed = np.zeros(max_reqs, dtype=np.int64)
        self.num_accepted_cpu = torch.ones(max_reqs, dtype=torch.int64, pin_memory=True)
        self.num_accepted = self.num_accepted_cpu.numpy()
        self.prev_row = np.full(max_reqs, -1, dtype=np.int64)

    def add(self, req_id, prompt):
        i = self.num_reqs
        self.req_ids[i], self.index[req_id] = req_id, i
        self.tokens[i, : len(prompt)] = prompt
        self.num_computed[i] = len(prompt) - 1
        self.num_accepted[i] = 1
        self.prev_row[i] = -1
        self.num_reqs += 1

    def remove(self, req_id):
        i = self.index.pop(req_id)
        self.req_ids[i] = None
        return i

    def condense(self, empty):
        for hole in sorted(empty, reverse=True):
            last = self.num_reqs - 1
            while last >= 0 and self.req_ids[last] is None:
                last -= 1
            if last > hole:
                self.req_ids[hole] = self.req_ids[last]
                self.index[self.req_ids[hole]] = hole
                self.tokens[hole] = self.tokens[last]
                self.num_computed[hole] = self.num_computed[last]
                self.num_accepted[hole] = self.num_accepted[last]
                self.prev_row[hole] = self.prev_row[last]
                self.req_ids[last] = None
        self.num_reqs -= len(empty)


class SpecDecodeRunner:
    def __init__(self, target, drafter, max_reqs=256, max_len=8192, k=3):
        self.target, self.drafter, self.k = target, drafter, k
        self.batch = InputBatch(max_reqs, max_len)
        self.num_accepted_gpu = torch.ones(max_reqs, dtype=torch.int64, device="cuda")
        self.last_token = torch.zeros(max_reqs, dtype=torch.int64, device="cuda")
        self.copy_stream = torch.cuda.Stream()
        self.accepted_event = torch.cuda.Event()

    def _update_states(self, output):
        holes = [self.batch.remove(r) for r in output.finished]
        self.batch.condense(holes)
        for req_id, prompt in output.new:
            self.batch.add(req_id, prompt)

    def _prepare_inputs(self):
        self.accepted_event.synchronize()
        b, n = self.batch, self.batch.num_reqs
        b.num_computed[:n] += b.num_accepted[:n]
        prompt_ids = b.tokens[np.arange(n), b.num_computed[:n] - 1]
        staged = np.stack([b.num_computed[:n], prompt_ids, b.prev_row[:n]])
        starts, ids, prev = torch.from_numpy(staged).pin_memory().to("cuda", non_blocking=True)
        b.prev_row[:n] = np.arange(n)
        return torch.where(prev >= 0, self.last_token[prev.clamp(min=0)], ids), starts

    @torch.inference_mode()
    def execute_model(self, output):
        self._update_states(output)
        n = self.batch.num_reqs
        if n == 0:
            return None
        ids, starts = self._prepare_inputs()
        drafts = self.drafter(ids, starts, self.k)
        logits = self.target(torch.cat([ids[:, None], drafts], dim=1), starts)
        sampled = logits.argmax(dim=-1)
        matches = (sampled[:, :-1] == drafts).long().cumprod(dim=1)
        accepted = matches.sum(dim=1) + 1
        self.num_accepted_gpu[:n] = accepted
        self.last_token[:n] = sampled.gather(1, accepted[:, None] - 1).squeeze(1)

        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            self.batch.num_accepted_cpu[:n].copy_(self.num_accepted_gpu[:n], non_blocking=True)
            self.accepted_event.record()
            host = sampled.to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        return sampled, host, done


def engine(runner, scheduler):
    in_flight = None
    while (output := scheduler.next_step()) is not None:
        result = runner.execute_model(output)
        if in_flight is not None:
            _, host, done = in_flight
            done.synchronize()
            scheduler.process(host.numpy())
        in_flight = result
