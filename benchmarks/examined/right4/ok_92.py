import torch
import torch.multiprocessing as mp


class Outbox:
    def __init__(self, channel, acks, limit):
        self.channel, self.acks, self.limit = channel, acks, limit
        self.held = {}

    def send(self, key, tensor):
        while len(self.held) >= self.limit:
            self._release()
        torch.cuda.current_stream().synchronize()
        self.held[key] = tensor
        self.channel.put((key, tensor))

    def _release(self):
        del self.held[self.acks.get()]

    def close(self):
        self.channel.put(None)
        while self.held:
            self._release()


class Inbox:
    def __init__(self, channel, acks):
        self.channel, self.acks = channel, acks

    def __iter__(self):
        while (item := self.channel.get()) is not None:
            key, shared = item
            own = shared.clone()
            torch.cuda.current_stream().synchronize()
            del item, shared
            self.acks.put(key)
            yield key, own


def produce(channel, acks, rounds):
    torch.cuda.set_device(0)
    outbox = Outbox(channel, acks, limit=3)
    base = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    for i in range(rounds):
        outbox.send(i, torch.sin(base * (i + 1) * 1e-3))
    outbox.close()


def consume(channel, acks, results):
    torch.cuda.set_device(0)
    for key, tensor in Inbox(channel, acks):
        results.put((key, tensor.square().mean().item()))
    results.put(None)


def main(rounds=20):
    ctx = mp.get_context("spawn")
    channel, acks, results = ctx.Queue(), ctx.Queue(), ctx.Queue()
    jobs = [ctx.Process(target=produce, args=(channel, acks, rounds)),
            ctx.Process(target=consume, args=(channel, acks, results))]
    for j in jobs:
        j.start()
    table = {}
    while (row := results.get()) is not None:
        table[row[0]] = row[1]
    for j in jobs:
        j.join()
    return table


if __name__ == "__main__":
    print(main())
