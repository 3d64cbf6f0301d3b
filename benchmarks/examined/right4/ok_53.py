import queue
import threading

import torch
import triton
import triton.language as tl


@triton.jit
def _dequant(q_ptr, s_ptr, o_ptr, n, group: tl.constexpr, block: tl.constexpr):
    offs = tl.program_id(0) * block + tl.arange(0, block)
    mask = offs < n
    q = tl.load(q_ptr + offs, mask=mask, other=0).to(tl.float32)
    s = tl.load(s_ptr + offs // group, mask=mask, other=0.0)
    tl.store(o_ptr + offs, (q * s).to(tl.float16), mask=mask)


class Ticket:
    def __init__(self, q, scale):
        self.q, self.scale = q, scale
        self.ready = torch.cuda.current_stream().record_event()
        self.launched = threading.Event()
        self.out = self.done = None

    def claim(self):
        self.launched.wait()
        stream = torch.cuda.current_stream()
        stream.wait_event(self.done)
        self.out.record_stream(stream)
        self.q = self.scale = None
        return self.out


class Dequantizer(threading.Thread):
    def __init__(self, group=128):
        super().__init__(daemon=True)
        self.group = group
        self.stream = torch.cuda.Stream()
        self.tickets = queue.Queue()

    def submit(self, q, scale):
        ticket = Ticket(q, scale)
        self.tickets.put(ticket)
        return ticket

    def _launch(self, ticket):
        n = ticket.q.numel()
        ticket.out = torch.empty(ticket.q.shape, dtype=torch.float16, device="cuda")
        _dequant[(triton.cdiv(n, 1024),)](ticket.q, ticket.scale, ticket.out, n, self.group, 1024)
        ticket.done = self.stream.record_event()

    def run(self):
        with torch.cuda.stream(self.stream):
            while (ticket := self.tickets.get()) is not None:
                self.stream.wait_event(ticket.ready)
                self._launch(ticket)
                ticket.launched.set()
                del ticket


@torch.no_grad()
def main(layers=12, dim=1024):
    worker = Dequantizer()
    worker.start()
    packed = [(torch.randint(-8, 8, (dim, dim), dtype=torch.int8, device="cuda"),
               torch.rand(dim * dim // 128, device="cuda") / 64) for _ in range(layers)]
    x = torch.randn(4, dim, dtype=torch.float16, device="cuda")
    ticket = worker.submit(*packed[0])
    for i in range(layers):
        weight = ticket.claim()
        if i + 1 < layers:
            ticket = worker.submit(*packed[i + 1])
        x = torch.relu(x @ weight.t())
    print(x.float().mean().item())
    worker.tickets.put(None)
    worker.join()
