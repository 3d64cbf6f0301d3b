"""Ring-exchange reduce-scatter fused with a chunked GEMM (host mailboxes between neighbours)."""
import threading

import torch


class Mailbox:
    """Pinned staging shared with a neighbour process."""

    def __init__(self, steps, shape, dtype):
        self.slots = [torch.zeros(shape, dtype=dtype, pin_memory=True) for _ in range(steps)]
        self.filled = [threading.Event() for _ in range(steps)]

    def wait(self, step):
        self.filled[step].wait()
        self.filled[step].clear()
        return self.slots[step]

    def announce(self, step):
        self.filled[step].set()


class RingReduceScatter:
    def __init__(self, world, rows, cols, inbox: Mailbox, outbox: Mailbox, device="cuda"):
        self.world = world
        self.rows = rows
        self.inbox = inbox
        self.outbox = outbox
        self.compute_streams = [torch.cuda.Stream() for _ in range(min(world, 3))]
        self.send_stream = torch.cuda.Stream()
        self.recv_stream = torch.cuda.Stream()
        self.partial = torch.zeros(world, rows, cols, dtype=torch.float16, device=device)
        self.inbound = torch.zeros(world, rows, cols, dtype=torch.float16, device=device)
        self.start_compute = torch.cuda.Event()
        self.stop_compute = torch.cuda.Event()
        self.stop_send = torch.cuda.Event()
        self.chunk_done = [torch.cuda.Event() for _ in range(world)]
        self.sent = [torch.cuda.Event() for _ in range(world)]

    def __call__(self, x, w):
        main = torch.cuda.current_stream()
        self.start_compute.record(main)
        for s in self.compute_streams:
            s.wait_event(self.start_compute)
        self.send_stream.wait_event(self.start_compute)
        self.recv_stream.wait_event(self.start_compute)

        for step in range(self.world):
            cs = self.compute_streams[step % len(self.compute_streams)]
            with torch.cuda.stream(cs):
                torch.mm(x[step * self.rows:(step + 1) * self.rows], w, out=self.partial[step])
                self.chunk_done[step].record(cs)
            if step == self.world - 1:
                break
            self.send_stream.wait_event(self.chunk_done[step])
            with torch.cuda.stream(self.send_stream):
                self.outbox.slots[step].copy_(self.partial[step], non_blocking=True)
                self.sent[step].record(self.send_stream)
            incoming = self.inbox.wait(step)
            with torch.cuda.stream(self.recv_stream):
                self.inbound[step].copy_(incoming, non_blocking=True)

        for s in self.compute_streams:
            self.stop_compute.record(s)
            main.wait_event(self.stop_compute)
        self.stop_send.record(self.send_stream)
        main.wait_event(self.stop_send)

        own = self.partial[self.world - 1].float()
        return own + self.inbound[: self.world - 1].float().sum(dim=0)

    def publish(self):
        """Called by the transport thread: hands finished slots to the neighbour."""
        for step in range(self.world - 1):
            self.sent[step].synchronize()
            self.outbox.announce(step)


class RowParallelLinear(torch.nn.Module):
    def __init__(self, in_features, out_features, ring: RingReduceScatter):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(in_features, out_features, dtype=torch.float16) * 0.02)
        self.ring = ring

    @torch.no_grad()
    def forward(self, x):
        return self.ring(x, self.weight)


def build(world=4, rows=256, in_features=2048, out_features=4096):
    inbox = Mailbox(world, (rows, out_features), torch.float16)
    outbox = Mailbox(world, (rows, out_features), torch.float16)
    ring = RingReduceScatter(world, rows, out_features, inbox, outbox)
    layer = RowParallelLinear(in_features, out_features, ring).cuda()
    return layer, inbox


def main():
    layer, inbox = build()
    for step in range(3):
        inbox.slots[step].normal_()
        inbox.announce(step)
    x = torch.randn(4 * 256, 2048, dtype=torch.float16, device="cuda")
    torch.cuda.synchronize()
    y = layer(x)
    print(float(y.abs().mean()))


if __name__ == "__main__":
    main()
