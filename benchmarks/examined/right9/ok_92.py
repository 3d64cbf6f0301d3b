import torch
from torch import nn


class Discriminator(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))

    def forward(self, x):
        return self.body(x)


class HostMirror:
    """Weights of the graphed module copied to the host every few steps."""

    def __init__(self, module, every):
        self.params = list(module.parameters())
        self.every = every
        self.stream = torch.cuda.Stream()
        self.host = [torch.zeros(p.shape).pin_memory() for p in self.params]
        self.event = None

    def after_step(self, step):
        if step % self.every:
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            for h, p in zip(self.host, self.params):
                h.copy_(p, non_blocking=True)
            self.event = self.stream.record_event()

    def before_step(self):
        if self.event is None:
            return None
        torch.cuda.current_stream().wait_event(self.event)
        self.event.synchronize()
        self.event = None
        return sum(h.square().sum().item() for h in self.host) ** 0.5


def main(dim=64, batch=128):
    gen = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, dim)).cuda()
    disc = Discriminator(dim).cuda()
    gen, disc_fn = torch.cuda.make_graphed_callables(
        (gen, disc),
        (
            (torch.randn(batch, 16, device="cuda"),),
            (torch.randn(batch, dim, device="cuda", requires_grad=True),),
        ),
    )
    opt = torch.optim.Adam([*gen.parameters(), *disc.parameters()], lr=1e-4)
    mirror = HostMirror(disc, 10)
    norms = []
    for step in range(200):
        noise = torch.randn(batch, 16, device="cuda")
        loss = nn.functional.softplus(-disc_fn(gen(noise))).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = mirror.before_step()
        if norm is not None:
            norms.append(norm)
        opt.step()
        mirror.after_step(step)
    print(len(norms), norms[-1])


if __name__ == "__main__":
    main()
