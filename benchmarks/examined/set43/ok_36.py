"""Gradient-penalty critic training with the penalty built on a second stream."""
import contextlib

import torch
import torch.nn as nn


@contextlib.contextmanager
def beside(stream):
    """Enter `stream` after the caller's work; the caller resumes after the block's work."""
    outer = torch.cuda.current_stream()
    stream.wait_stream(outer)
    with torch.cuda.stream(stream):
        yield
    outer.wait_stream(stream)


class Critic(nn.Module):
    def __init__(self, dim=128, width=512):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, width), nn.LeakyReLU(0.2),
            nn.Linear(width, width), nn.LeakyReLU(0.2),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(x)


class Generator(nn.Module):
    def __init__(self, latent=32, dim=128, width=512):
        super().__init__()
        self.latent = latent
        self.net = nn.Sequential(
            nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, dim),
        )

    def forward(self, n):
        return self.net(torch.randn(n, self.latent, device="cuda"))


class Wgan:
    def __init__(self, weight=10.0):
        self.gen = Generator().cuda()
        self.critic = Critic().cuda()
        self.g_opt = torch.optim.Adam(self.gen.parameters(), 1e-4, betas=(0.5, 0.9))
        self.c_opt = torch.optim.Adam(self.critic.parameters(), 1e-4, betas=(0.5, 0.9))
        self.weight = weight
        self.side = torch.cuda.Stream()

    def penalty_value(self, real, fake):
        alpha = torch.rand(real.size(0), 1, device=real.device)
        mid = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        (g,) = torch.autograd.grad(self.critic(mid).sum(), mid)
        return (g.norm(dim=1) - 1.0).square().mean()

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.gen(real.size(0))
        eps = 1e-2 * torch.randn_like(real)
        smooth = (self.critic(real + eps) - self.critic(real)).square().mean()
        loss = self.critic(fake).mean() - self.critic(real).mean() + self.weight * smooth
        self.c_opt.zero_grad()
        loss.backward()
        self.c_opt.step()
        return loss.detach(), fake

    def monitor(self, real, fake):
        with beside(self.side):
            value = self.penalty_value(real, fake)
            self.last = value.detach()
        return self.last

    def generator_step(self, n):
        loss = -self.critic(self.gen(n)).mean()
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        return loss.detach()


def reals(n, dim, steps):
    basis = torch.randn(8, dim, device="cuda")
    for _ in range(steps):
        yield torch.tanh(torch.randn(n, 8, device="cuda") @ basis)


def main():
    torch.manual_seed(0)
    gan = Wgan()
    seen = []
    for i, real in enumerate(reals(256, 128, 200)):
        c, fake = gan.critic_step(real)
        gp = gan.monitor(real, fake)
        if i % 5 == 4:
            gan.generator_step(256)
        seen.append(gp + 0.0)
        if i % 50 == 0:
            print(i, c.item(), gp.item())
    print(torch.stack(seen).mean().item())


if __name__ == "__main__":
    main()
