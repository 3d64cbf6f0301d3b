from collections import deque

import torch


class KVPool:
    def __init__(self, layers, slots, dim):
        self.k = torch.zeros(layers, slots, dim, dtype=torch.float16, device="cuda")
        self.v = torch.zeros(layers, slots, dim, dtype=torch.float16, device="cuda")
        self.free = deque(range(slots))

    def alloc(self, n):
        return [self.free.popleft() for _ in range(n)]

    def release(self, slots):
        self.free.extendleft(slots)


class HostPrefixStore:
    def __init__(self):
        self.blocks = {}

    def put(self, key, k, v):
        self.blocks[key] = (k.pin_memory(), v.pin_memory())

    def get(self, key):
        return self.blocks.get(key)


class Request:
    def __init__(self, tokens, prefix_key, max_new):
        self.tokens, self.prefix_key, self.max_new = list(tokens), prefix_key, max_new
        self.slots, self.output, self.finished = [], [], False
        self.row, self.fresh = None, True


class OverlapScheduler:
    def __init__(self, model, pool, store, eos):
        self.model, self.pool, self.store, self.eos = model, pool, store, eos
        self.schedule_stream = torch.cuda.current_stream()
        self.forward_stream = torch.cuda.Stream()
        self.waiting, self.running = deque(), []
        self.next_token = torch.zeros(32, dtype=torch.int64, device="cuda")

    def load_prefix(self, req):
        k, v = self.store.get(req.prefix_key)
        req.slots = self.pool.alloc(k.shape[1])
        index = torch.tensor(req.slots, pin_memory=True).to("cuda", non_blocking=True)
        self.pool.k.index_copy_(1, index, k.to("cuda", non_blocking=True))
        self.pool.v.index_copy_(1, index, v.to("cuda", non_blocking=True))

    def schedule(self):
        self.running = [r for r in self.running if not r.finished]
        rows = set(range(32)) - {r.row for r in self.running}
        while self.waiting and len(self.running) < 32 and len(self.pool.free) > 512:
            req = self.waiting.popleft()
            req.row = rows.pop()
            self.load_prefix(req)
            self.running.append(req)
        for r in self.running:
            r.slots += self.pool.alloc(1)
        return list(self.running)

    def run_batch(self, batch):
        slots = [torch.tensor(r.slots) for r in batch]
        lens = torch.tensor([len(s) for s in slots], pin_memory=True).to("cuda", non_blocking=True)
        table = torch.nn.utils.rnn.pad_sequence(slots, batch_first=True).pin_memory().to("cuda", non_blocking=True)
        first = torch.tensor([r.tokens[-1] if r.fresh else -1 for r in batch], pin_memory=True).to("cuda", non_blocking=True)
        rows = torch.tensor([r.row for r in batch], pin_memory=True).to("cuda", non_blocking=True)
        self.forward_stream.wait_stream(self.schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            for t in (lens, table, first, rows):
                t.record_stream(self.forward_stream)
            ids = torch.where(first >= 0, first, self.next_token[rows])
            logits = self.model.decode(ids, self.pool.k, self.pool.v, table, lens)
            tokens = logits.argmax(dim=-1)
            self.next_token[rows] = tokens
            host = tokens.to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        for r in batch:
            r.fresh = False
        return batch, host, done

    def process_batch_result(self, batch, host, done):
        done.synchronize()
        for r, token in zip(batch, host.tolist()):
            if r.finished:
                continue
            r.output.append(token)
            r.tokens.append(token)
            if token == self.eos or len(r.output) >= r.max_new:
                r.finished = True
                self.pool.release(r.slots)

    @torch.inference_mode()
    def event_loop(self):
        pending = None
        while self.waiting or self.running or pending:
            batch = self.schedule()
            launched = self.run_batch(batch) if batch else None
            if pending is not None:
                self.process_batch_result(*pending)
            pending = launched
