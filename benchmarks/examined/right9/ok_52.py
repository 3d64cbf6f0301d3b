import torch
import torch.multiprocessing as mp


def reader(buffers, written_handles, hello, tokens, acks, result):
    device = buffers[0].device
    torch.cuda.set_device(device)
    written = [torch.cuda.Event.from_ipc_handle(device, h) for h in written_handles]
    done = [torch.cuda.Event(interprocess=True) for _ in buffers]
    hello.put([e.ipc_handle() for e in done])
    stream = torch.cuda.current_stream()
    total = torch.zeros((), device=device, dtype=torch.float64)
    while True:
        slot = tokens.get()
        if slot is None:
            break
        stream.wait_event(written[slot])
        total += buffers[slot].double().sum()
        done[slot].record(stream)
        acks.put(slot)
    result.put(total.item())
    del buffers


class Writer:
    """Hands device buffers to another process through interprocess events."""

    def __init__(self, shape, slots=2):
        ctx = mp.get_context("spawn")
        self.buffers = [torch.zeros(shape, device="cuda:0") for _ in range(slots)]
        self.written = [torch.cuda.Event(interprocess=True) for _ in range(slots)]
        torch.cuda.synchronize()
        self.hello, self.tokens, self.acks, self.result = (ctx.Queue() for _ in range(4))
        handles = [e.ipc_handle() for e in self.written]
        args = (self.buffers, handles, self.hello, self.tokens, self.acks, self.result)
        self.process = ctx.Process(target=reader, args=args)
        self.process.start()
        self.done = [torch.cuda.Event.from_ipc_handle(torch.device("cuda:0"), h) for h in self.hello.get()]
        self.idle = list(range(slots))
        self.touched = set()

    def send(self, values):
        stream = torch.cuda.current_stream()
        if not self.idle:
            self.idle.append(self.acks.get())
        slot = self.idle.pop()
        if slot in self.touched:
            stream.wait_event(self.done[slot])
        self.touched.add(slot)
        self.buffers[slot].copy_(values)
        self.written[slot].record(stream)
        self.tokens.put(slot)

    def close(self):
        self.tokens.put(None)
        total = self.result.get()
        self.process.join()
        return total


def main():
    writer = Writer((1024, 1024))
    expect = torch.zeros((), device="cuda:0", dtype=torch.float64)
    for i in range(50):
        x = torch.rand(1024, 1024, device="cuda:0") * i
        expect += x.double().sum()
        writer.send(x)
    print(writer.close(), expect.item())


if __name__ == "__main__":
    main()
