"""Device ring for frame exchange between a renderer and a learner process."""
import torch
import torch.multiprocessing as mp
from torch import nn


class RingWriter:
    def __init__(self, ring, acks):
        self.ring, self.acks = ring, acks
        self.ready = [torch.cuda.Event(interprocess=True) for _ in range(len(ring))]
        self.stream = torch.cuda.Stream()
        self.sent = 0

    def handles(self):
        return [e.ipc_handle() for e in self.ready]

    def write(self, render, outbox):
        slot = self.sent % len(self.ring)
        if self.sent >= len(self.ring):
            assert self.acks.get() == slot
        with torch.cuda.stream(self.stream):
            self.ring[slot].copy_(render())
            self.ready[slot].record()
        outbox.put(slot)
        self.sent += 1


def learner(inbox, acks, handles, ring, frames):
    device = torch.device("cuda", 0)
    ready = [torch.cuda.Event.from_ipc_handle(device, h) for h in handles]
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 84 * 84, 16)).to(device)
    opt = torch.optim.SGD(net.parameters(), 1e-3)
    for _ in range(frames):
        slot = inbox.get()
        stream = torch.cuda.current_stream()
        stream.wait_event(ready[slot])
        batch = ring[slot].clone()
        stream.synchronize()
        acks.put(slot)
        loss = net(batch).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("loss", loss.item())


def main(frames=300, slots=3):
    ctx = mp.get_context("spawn")
    frames_q, acks = ctx.Queue(), ctx.Queue()
    ring = torch.zeros(slots, 64, 3, 84, 84, device="cuda")
    torch.cuda.synchronize()
    writer = RingWriter(ring, acks)
    proc = ctx.Process(target=learner, args=(frames_q, acks, writer.handles(), ring, frames))
    proc.start()
    for _ in range(frames):
        writer.write(lambda: torch.rand(64, 3, 84, 84, device="cuda"), frames_q)
    proc.join()


if __name__ == "__main__":
    main()
