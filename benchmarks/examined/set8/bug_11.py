from collections import deque

import torch


class ScheduleBatch:

    def __init__(self, max_bs, max_len, device):
        self.seq_lens = torch.zeros(max_bs, dtype=torch.int64, device=device)
        self.req_to_token = torch.zeros(max_bs, max_len, dtype=torch.int64, device=device)
        self.rows = torch.arange(max_bs, device=device)

    def prepare_for_decode(self, out_cache_loc):
        self.req_to_token[self.rows, self.seq_lens] = out_cache_loc
        self.seq_lens.add_(1)


class GenerationResult:

    def __init__(self, next_token_ids, copy_done):
        self.next_token_ids = next_token_ids
        self.copy_done = copy_done
        self.host_ids = None

    def copy_to_cpu(self):
        self.host_ids = torch.empty(self.next_token_ids.shape, dtype=torch.int64, pin_memory=True)
        self.host_ids.copy_(self.next_token_ids, non_blocking=True)
        self.copy_done.record()


class OverlapScheduler:

    def __init__(self, model, batch, allocator, max_bs, device):
        self.model = model
        self.batch = batch
        self.allocator = allocator
        self.schedule_stream = torch.cuda.Stream(device=device)
        self.forward_stream = torch.cuda.Stream(device=device)
        self.future_ids = torch.zeros(max_bs, dtype=torch.int64, device=device)
        self.result_queue = deque()
        self.outputs = []
        torch.cuda.synchronize(device)

    def run_batch(self):
        self.forward_stream.wait_stream(self.schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            logits = self.model(self.future_ids, self.batch.seq_lens,
                                self.batch.req_to_token)
            ids = torch.argmax(logits, dim=-1)
            self.future_ids.copy_(ids)
            result = GenerationResult(ids, torch.cuda.Event())
            result.copy_to_cpu()
        return result

    def process_batch_result(self, result):
        result.copy_done.synchronize()
        self.outputs.append(result.host_ids.tolist())

    @torch.inference_mode()
    def event_loop_overlap(self, num_steps):
        for _ in range(num_steps):
            with torch.cuda.stream(self.schedule_stream):
                out_cache_loc = self.allocator.alloc()
                self.batch.prepare_for_decode(out_cache_loc)
            result = self.run_batch()
            self.result_queue.append(result)
            if len(self.result_queue) > 1:
                self.process_batch_result(self.result_queue.popleft())
        while self.result_queue:
            self.process_batch_result(self.result_queue.popleft())
        return self.outputs
