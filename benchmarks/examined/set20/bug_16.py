"""Scheduler with overlapped forward: request slots are recycled between batches."""
import torch


class ReqSlots:
    def __init__(self, max_reqs, max_context, device):
        self.req_to_token = torch.zeros(max_reqs, max_context, dtype=torch.int32, device=device)
        self.free = list(range(max_reqs))

    def take(self):
        return self.free.pop()

    def give_back(self, idx):
        self.free.append(idx)


class Req:
    def __init__(self, rid, prompt, max_new):
        self.rid = rid
        self.prompt = prompt
        self.max_new = max_new
        self.generated = []
        self.slot = None
        self.length = 0
        self.retired = False


class ScheduleBatch:
    def __init__(self, reqs, slots, device):
        self.reqs = reqs
        self.req_pool_indices = torch.tensor(slots).pin_memory().to(device, non_blocking=True)
        self.seq_lens = torch.tensor([r.length for r in reqs]).pin_memory().to(
            device, non_blocking=True
        )


class Scheduler:
    def __init__(self, model, slots, allocator, device):
        self.model = model
        self.slots = slots
        self.allocator = allocator
        self.device = device
        self.forward_stream = torch.cuda.Stream(device=device)
        self.token_buf = torch.zeros(
            slots.req_to_token.shape[0], dtype=torch.int64, device=device
        )
        self.running = []

    def admit(self, queue):
        while queue and self.slots.free:
            req = queue.pop(0)
            req.slot = self.slots.take()
            req.length = len(req.prompt)
            locs = self.allocator.alloc(req.length).pin_memory()
            self.slots.req_to_token[req.slot, : req.length].copy_(locs, non_blocking=True)
            self.running.append(req)

    def prepare_for_decode(self):
        locs = self.allocator.alloc(len(self.running)).pin_memory()
        rows = [r.slot for r in self.running]
        batch = ScheduleBatch(list(self.running), rows, self.device)
        self.slots.req_to_token[batch.req_pool_indices, batch.seq_lens] = locs.to(
            self.device, non_blocking=True
        )
        for r in self.running:
            r.length += 1
        return batch

    def run_batch(self, batch):
        default = torch.cuda.current_stream(self.device)
        self.forward_stream.wait_stream(default)
        batch.req_pool_indices.record_stream(self.forward_stream)
        batch.seq_lens.record_stream(self.forward_stream)
        with torch.cuda.stream(self.forward_stream):
            table = self.slots.req_to_token
            last = self.token_buf[batch.req_pool_indices]
            logits = self.model(last, table, batch.req_pool_indices, batch.seq_lens + 1)
            next_ids = logits.argmax(dim=-1)
            self.token_buf[batch.req_pool_indices] = next_ids
            host = torch.empty(next_ids.shape, dtype=next_ids.dtype, pin_memory=True)
            host.copy_(next_ids, non_blocking=True)
            copy_done = torch.cuda.Event()
            copy_done.record()
        return host, copy_done

    def process_batch_result(self, batch, result):
        host, copy_done = result
        copy_done.synchronize()
        for req, token in zip(batch.reqs, host.tolist()):
            if req.retired:
                continue
            req.generated.append(token)
            if len(req.generated) >= req.max_new:
                req.retired = True
                self.running.remove(req)
                self.slots.give_back(req.slot)

    @torch.inference_mode()
    def event_loop_overlap(self, queue):
        last = None
        while queue or self.running or last is not None:
            self.admit(queue)
            launched = None
            if self.running:
                batch = self.prepare_for_decode()
                launched = (batch, self.run_batch(batch))
            if last is not None:
                self.process_batch_result(*last)
            last = launched
