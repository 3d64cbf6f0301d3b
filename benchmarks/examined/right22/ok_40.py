import torch
from torch import nn


class HostTable:
    def __init__(self, rows, width):
        self.rows = torch.randn(rows, width).mul_(0.1)

    def gather(self, ids, out):
        torch.index_select(self.rows, 0, ids, out=out)

    def apply(self, ids, grads, lr):
        self.rows.index_add_(0, ids, grads, alpha=-lr)


class Link:
    def __init__(self, batch, width):
        make = lambda: torch.empty(batch, width)
        self.up, self.down = torch.cuda.Stream(), torch.cuda.Stream()
        self.fetch_page = [make().pin_memory() for _ in range(2)]
        self.grad_page = [make().pin_memory() for _ in range(2)]
        self.rows = [make().cuda() for _ in range(2)]
        self.sent, self.used, self.returned = ([torch.cuda.Event() for _ in range(2)] for _ in range(3))

    def send(self, slot, table, ids):
        self.sent[slot].synchronize()
        table.gather(ids, self.fetch_page[slot])
        self.up.wait_event(self.used[slot])
        with torch.cuda.stream(self.up):
            self.rows[slot].copy_(self.fetch_page[slot], non_blocking=True)
            self.sent[slot].record(self.up)

    def get(self, slot):
        torch.cuda.current_stream().wait_event(self.sent[slot])
        return self.rows[slot].detach().requires_grad_()

    def give(self, slot, grad):
        now = torch.cuda.current_stream()
        self.used[slot].record(now)
        self.down.wait_event(self.used[slot])
        with torch.cuda.stream(self.down):
            self.grad_page[slot].copy_(grad, non_blocking=True)
            self.returned[slot].record(self.down)
        grad.record_stream(self.down)

    def settle(self, slot, table, ids, lr):
        self.returned[slot].synchronize()
        table.apply(ids, self.grad_page[slot], lr)


def train(table, link, net, plan, lr=0.05):
    opt = torch.optim.SGD(net.parameters(), lr=lr)
    link.send(0, table, plan[0])
    for n, ids in enumerate(plan):
        slot = n % 2
        emb = link.get(slot)
        loss = net(emb).square().mean()
        opt.zero_grad()
        loss.backward()
        link.give(slot, emb.grad)
        opt.step()
        if n > 0:
            link.settle(1 - slot, table, plan[n - 1], lr)
        if n + 1 < len(plan):
            link.send(1 - slot, table, plan[n + 1])
    link.settle((len(plan) - 1) % 2, table, plan[-1], lr)
    return loss.item()


def main():
    table = HostTable(10000, 64)
    link = Link(512, 64)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    plan = [torch.randint(0, 10000, (512,)) for _ in range(30)]
    print(train(table, link, net, plan), table.rows.norm().item())


if __name__ == "__main__":
    main()
