import torch
import torch.multiprocessing as mp


def producer(q, ack, steps, slots):
    torch.cuda.set_device(0)
    ring = [torch.empty(1 << 20, device="cuda") for _ in range(slots)]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for t in ring:
        q.put(t)
    for step in range(steps):
        slot = step % slots
        if step >= slots:
            assert ack.get() == slot
        with torch.cuda.stream(stream):
            ring[slot].normal_(mean=float(step))
        stream.synchronize()
        q.put((step, slot))
    q.put(None)
    for _ in range(min(steps, slots)):
        ack.get()
    assert ack.get() == "closed"


def consumer(q, ack, out, slots):
    torch.cuda.set_device(0)
    ring = [q.get() for _ in range(slots)]
    stream = torch.cuda.Stream()
    means = torch.zeros(4096, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    n = 0
    with torch.cuda.stream(stream):
        while (msg := q.get()) is not None:
            step, slot = msg
            means[step] = ring[slot].mean()
            stream.synchronize()
            ack.put(slot)
            n += 1
        out.put(means[:n].tolist())
    del ring
    ack.put("closed")


def main(steps=64, slots=3):
    ctx = mp.get_context("spawn")
    q, ack, out = ctx.Queue(), ctx.Queue(), ctx.Queue()
    procs = [
        ctx.Process(target=producer, args=(q, ack, steps, slots)),
        ctx.Process(target=consumer, args=(q, ack, out, slots)),
    ]
    for p in procs:
        p.start()
    print(out.get()[:5])
    for p in procs:
        p.join()


if __name__ == "__main__":
    main()
