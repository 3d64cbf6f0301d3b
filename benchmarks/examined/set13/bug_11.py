from typing import Dict, List

import torch


class LJTermModule(torch.nn.Module):
    def __init__(self, sigma, eps):
        super().__init__()
        self.register_buffer("sigma", sigma)
        self.register_buffer("eps", eps)

    def forward(self, coords):
        d = torch.cdist(coords, coords).clamp_min_(1e-3)
        sr6 = (self.sigma / d) ** 6
        return (4 * self.eps * (sr6 * sr6 - sr6)).triu(1).sum(dim=(1, 2))


class ElecTermModule(torch.nn.Module):
    def __init__(self, charges, dielectric=80.0):
        super().__init__()
        self.register_buffer("qq", charges[:, None] * charges[None, :])
        self.dielectric = dielectric

    def forward(self, coords):
        d = torch.cdist(coords, coords).clamp_min_(1.0)
        return (332.06 * self.qq / (self.dielectric * d)).triu(1).sum(dim=(1, 2))


class CartBondedModule(torch.nn.Module):
    def __init__(self, bonds, lengths, k):
        super().__init__()
        self.register_buffer("bonds", bonds)
        self.register_buffer("lengths", lengths)
        self.register_buffer("k", k)

    def forward(self, coords):
        v = coords[:, self.bonds[:, 0]] - coords[:, self.bonds[:, 1]]
        return (self.k * (v.norm(dim=-1) - self.lengths) ** 2).sum(dim=1)


class WholePoseScoringModule:
    def __init__(self, weights: Dict[str, float], terms: Dict[str, torch.nn.Module], device):
        self.device = torch.device(device)
        self.names: List[str] = list(terms)
        self.terms = [terms[n].to(self.device) for n in self.names]
        self.streams = [torch.cuda.Stream(device=self.device) for _ in self.terms]
        self.weights = torch.tensor([weights[n] for n in self.names], device=self.device)

    @torch.no_grad()
    def unweighted_scores(self, coords):
        current = torch.cuda.current_stream(self.device)
        scores = []
        for term, stream in zip(self.terms, self.streams):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                score = term(coords)
            score.record_stream(current)
            coords.record_stream(stream)
            scores.append(score)
        return torch.stack(scores)

    def __call__(self, coords):
        return (self.weights[:, None] * self.unweighted_scores(coords)).sum(dim=0)


def monte_carlo(sfxn, coords, steps, kT=1.0, scale=0.05):
    energy = sfxn(coords)
    for _ in range(steps):
        trial = coords + scale * torch.randn_like(coords)
        trial_energy = sfxn(trial)
        accept = torch.rand_like(energy) < torch.exp((energy - trial_energy) / kT)
        coords = torch.where(accept[:, None, None], trial, coords)
        energy = torch.where(accept, trial_energy, energy)
    return coords, energy
