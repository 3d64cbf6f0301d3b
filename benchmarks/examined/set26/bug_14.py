import torch


class TokenSlotAllocator:
    def __init__(self, size):
        self.free_slots = list(range(size))

    def alloc(self, n):
        taken, self.free_slots = self.free_slots[-n:], self.free_slots[:-n]
        return taken

    def free(self, slots):
        self.free_slots.extend(slots)


class RadixIndex:
    """Maps token prefixes to KV slots; an insert reports what was there already."""

    def __init__(self):
        self.nodes = {}

    def insert(self, tokens, slots):
        present = 0
        for i in range(len(tokens)):
            key = tuple(tokens[: i + 1])
            if key in self.nodes:
                present += 1
            else:
                self.nodes[key] = slots[i]
        return present

    def match(self, tokens):
        return [self.nodes[tuple(tokens[: i + 1])] for i in range(len(tokens))
                if tuple(tokens[: i + 1]) in self.nodes]


class HiCacheController:
    def __init__(self, kv_pool, host_pool):
        self.kv_pool = kv_pool
        self.host_pool = host_pool
        self.load_stream = torch.cuda.Stream()

    def load(self, host_start, slots):
        index = torch.tensor(slots, device="cuda")
        self.load_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.load_stream):
            chunk = self.host_pool[host_start:host_start + len(slots)].to("cuda", non_blocking=True)
            self.kv_pool.index_copy_(0, index, chunk)
        index.record_stream(self.load_stream)
        return self.load_stream.record_event()


class Scheduler:
    def __init__(self, slots=65536, width=1024, host_slots=1 << 18):
        self.kv_pool = torch.zeros(slots, width, dtype=torch.float16, device="cuda")
        host = torch.zeros(host_slots, width, dtype=torch.float16, pin_memory=True)
        self.controller = HiCacheController(self.kv_pool, host)
        self.allocator = TokenSlotAllocator(slots)
        self.tree = RadixIndex()
        self.proj = torch.nn.Linear(width, width, bias=False).to("cuda", torch.float16)

    def init_load_back(self, req):
        slots = self.allocator.alloc(len(req["prefix"]))
        req["load_event"] = self.controller.load(req["host_start"], slots)
        duplicated = self.tree.insert(req["prefix"], slots)
        if duplicated:
            self.allocator.free(slots[:duplicated])

    @torch.inference_mode()
    def prefill(self, req):
        event = req.get("load_event")
        if event is not None:
            torch.cuda.current_stream().wait_event(event)
        hidden = req["hidden"].to("cuda", torch.float16)
        slots = self.allocator.alloc(hidden.shape[0])
        index = torch.tensor(slots, device="cuda")
        self.kv_pool.index_copy_(0, index, self.proj(hidden))
        return index

    @torch.inference_mode()
    def attend(self, index, query):
        keys = self.kv_pool[index]
        return (query.to("cuda", torch.float16) @ keys.T).softmax(-1) @ keys

    def event_loop(self, batches):
        outputs = []
        for loading, running in batches:
            for req in loading:
                self.init_load_back(req)
            indices = [self.prefill(req) for req in running]
            outputs += [self.attend(i, r["query"]) for i, r in zip(indices, running)]
        return [o.cpu() for o in outputs]
