"""Rollout worker sends observations to a learner process; both sides use interprocess events."""
import torch
import torch.multiprocessing as mp


def learner(inbox, outbox, steps, shape):
    torch.cuda.set_device(0)
    buf = inbox.get()
    consumed = torch.cuda.Event(interprocess=True)
    consumed.record()
    outbox.put(consumed.ipc_handle())
    device = torch.device("cuda", 0)
    weight = torch.zeros(shape[-1], device="cuda")
    produced = torch.cuda.Event.from_ipc_handle(device, inbox.get())
    for _ in range(steps):
        inbox.get()
        produced.wait()
        weight.add_(buf.mean(0), alpha=0.1)
        consumed.record()
        consumed.synchronize()
        outbox.put("taken")
    outbox.put(weight.tolist())
    inbox.get()
    del buf


def main():
    ctx = mp.get_context("spawn")
    to_learner, from_learner = ctx.Queue(), ctx.Queue()
    steps, shape = 20, (256, 64)
    buf = torch.zeros(shape, device="cuda")
    torch.cuda.synchronize()
    proc = ctx.Process(target=learner, args=(to_learner, from_learner, steps, shape))
    proc.start()
    to_learner.put(buf)
    device = torch.device("cuda", torch.cuda.current_device())
    consumed = torch.cuda.Event.from_ipc_handle(device, from_learner.get())
    produced = torch.cuda.Event(interprocess=True)
    produced.record()
    to_learner.put(produced.ipc_handle())
    for step in range(steps):
        consumed.wait()
        buf.normal_().add_(step)
        produced.record()
        to_learner.put("ready")
        from_learner.get()
    print(from_learner.get()[:4])
    to_learner.put("bye")
    proc.join()


if __name__ == "__main__":
    main()
