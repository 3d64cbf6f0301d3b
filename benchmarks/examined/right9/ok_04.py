from dataclasses import dataclass, field

import torch


@dataclass
class Request:
    req_id: str
    cpu_blocks: list
    gpu_blocks: list
    steps_left: int = 4


@dataclass
class StoreJob:
    req: Request
    done: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class KVTransfer:
    """Layer by layer load and whole-request store over one transfer stream."""

    def __init__(self, gpu_kv, cpu_kv):
        self.gpu_kv = gpu_kv
        self.cpu_kv = cpu_kv
        self.stream = torch.cuda.Stream()
        self.ready = {}
        self.storing = []

    def start_load(self, req):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for layer, (dst, src) in enumerate(zip(self.gpu_kv, self.cpu_kv)):
                for c, g in zip(req.cpu_blocks, req.gpu_blocks):
                    dst[g].copy_(src[c], non_blocking=True)
                event = torch.cuda.Event()
                event.record(self.stream)
                self.ready[(req.req_id, layer)] = event

    def wait_layer(self, layer, req_ids):
        current = torch.cuda.current_stream()
        for req_id in req_ids:
            event = self.ready.pop((req_id, layer), None)
            if event is not None:
                current.wait_event(event)

    def start_store(self, req):
        self.stream.wait_stream(torch.cuda.current_stream())
        job = StoreJob(req)
        with torch.cuda.stream(self.stream):
            for dst, src in zip(self.cpu_kv, self.gpu_kv):
                for c, g in zip(req.cpu_blocks, req.gpu_blocks):
                    dst[c].copy_(src[g], non_blocking=True)
            job.done.record()
        self.storing.append(job)

    def poll(self):
        finished = [j for j in self.storing if j.done.query()]
        self.storing = [j for j in self.storing if j not in finished]
        return [b for j in finished for b in j.req.gpu_blocks]


class Engine:
    def __init__(self, layers=16, blocks=256, cpu_blocks=2048, block=16, dim=512):
        self.gpu_kv = [torch.zeros(blocks, block, dim, device="cuda") for _ in range(layers)]
        self.cpu_kv = [torch.zeros(cpu_blocks, block, dim, pin_memory=True) for _ in range(layers)]
        self.free = list(range(blocks))
        self.transfer = KVTransfer(self.gpu_kv, self.cpu_kv)
        self.hidden = torch.randn(1, dim, device="cuda")

    def admit(self, waiting, running):
        self.free.extend(self.transfer.poll())
        while waiting and len(self.free) >= len(waiting[0][1]):
            req_id, cpu_blocks = waiting.pop(0)
            gpu_blocks = [self.free.pop() for _ in cpu_blocks]
            req = Request(req_id, cpu_blocks, gpu_blocks)
            self.transfer.start_load(req)
            running.append(req)

    def step(self, running):
        h = self.hidden
        ids = [r.req_id for r in running]
        for layer, kv in enumerate(self.gpu_kv):
            self.transfer.wait_layer(layer, ids)
            for r in running:
                ctx = torch.cat([kv[g] for g in r.gpu_blocks])
                attn = torch.softmax(h @ ctx.t(), dim=-1)
                h = torch.tanh(attn @ ctx + h)
                kv[r.gpu_blocks[-1]][-1].copy_(h[0])
        return h


def main():
    engine = Engine()
    waiting = [(f"r{i}", list(range(i * 8, i * 8 + 8))) for i in range(200)]
    running = []
    while waiting or running:
        engine.admit(waiting, running)
        if not running:
            continue
        engine.step(running)
        for r in list(running):
            r.steps_left -= 1
            if r.steps_left == 0:
                running.remove(r)
                engine.transfer.start_store(r)
    torch.cuda.synchronize()
    print(sum(float(t.sum()) for t in engine.cpu_kv))


if __name__ == "__main__":
    main()
