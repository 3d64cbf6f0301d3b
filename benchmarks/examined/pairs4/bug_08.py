"""Rollout workers send observation batches to the learner process."""
import torch
import torch.multiprocessing as mp


class Simulator:
    def __init__(self, n, device):
        self.state = torch.zeros(n, 64, device=device)
        self.drift = torch.randn(64, 64, device=device) * 0.05

    def step(self):
        self.state = torch.tanh(self.state @ self.drift + torch.randn_like(self.state))
        return self.state


def rollout(outbox, credit, steps, device):
    torch.cuda.set_device(device)
    sim_stream = torch.cuda.Stream()
    with torch.cuda.stream(sim_stream):
        sim = Simulator(8192, device)
    kept = []
    for step in range(steps):
        credit.acquire()
        with torch.cuda.stream(sim_stream):
            chunk = torch.stack([sim.step() for _ in range(16)])
        kept.append(chunk)
        outbox.put((step, chunk))
    outbox.put(None)
    credit.acquire()


class Learner:
    def __init__(self):
        self.policy = torch.nn.Linear(64, 8).cuda()
        self.opt = torch.optim.Adam(self.policy.parameters(), 1e-3)

    def update(self, chunk):
        loss = self.policy(chunk).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def main(steps=100):
    ctx = mp.get_context("spawn")
    outbox, credit = ctx.Queue(), ctx.Semaphore(1)
    worker = ctx.Process(target=rollout, args=(outbox, credit, steps, 0))
    worker.start()
    learner = Learner()
    while (item := outbox.get()) is not None:
        step, chunk = item
        value = learner.update(chunk)
        del item, chunk
        credit.release()
        if step % 20 == 0:
            print(step, value)
    credit.release()
    worker.join()


if __name__ == "__main__":
    main()
