"""Replay buffer process fed with device tensors over a queue."""
import torch
import torch.multiprocessing as mp


class SharedBatch:
    """A device tensor with the event by which its reader gives it back."""

    def __init__(self, tensor: torch.Tensor, returned):
        self.tensor = tensor
        self.returned = returned

    def publish(self, q) -> None:
        self.returned.clear()
        torch.cuda.current_stream().synchronize()
        q.put(self.tensor)

    def reclaim(self) -> None:
        self.returned.wait()


def learner(q, returned_events, stats, stop):
    torch.cuda.set_device(0)
    weight = torch.zeros(64, device="cuda")
    turn = 0
    while True:
        batch = q.get()
        if batch is None:
            break
        weight += 0.01 * (batch.mean(dim=0) - weight)
        torch.cuda.synchronize()
        del batch
        returned_events[turn].set()
        turn = (turn + 1) % len(returned_events)
    stats.put(weight.cpu().numpy())
    stop.wait()


def actor(slots: list[SharedBatch], q, rounds: int) -> None:
    for i in range(rounds):
        slot = slots[i % len(slots)]
        slot.reclaim()
        slot.tensor.normal_(mean=1.0).mul_(0.5)
        slot.publish(q)
    for slot in slots:
        slot.reclaim()
    q.put(None)


def main():
    ctx = mp.get_context("spawn")
    q, stats, stop = ctx.Queue(), ctx.Queue(), ctx.Event()
    events = [ctx.Event() for _ in range(2)]
    for e in events:
        e.set()
    proc = ctx.Process(target=learner, args=(q, events, stats, stop))
    proc.start()
    torch.cuda.set_device(0)
    slots = [SharedBatch(torch.zeros(4096, 64, device="cuda"), e) for e in events]
    actor(slots, q, rounds=50)
    print(stats.get()[:4])
    stop.set()
    proc.join()


if __name__ == "__main__":
    main()
