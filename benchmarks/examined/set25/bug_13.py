import numpy as np
import torch
import torch.nn as nn


def batch_to(systems, targets, extra_data, device, dtype=None, non_blocking=True):
    """Move the systems, targets and extra data of one batch to a device."""
    systems = [s.to(dtype=dtype, device=device, non_blocking=non_blocking) for s in systems]
    targets = {k: v.to(dtype=dtype, device=device, non_blocking=non_blocking) for k, v in targets.items()}
    extra_data = {k: v.to(device=device, non_blocking=non_blocking) for k, v in extra_data.items()}
    return systems, targets, extra_data


class RMSEAccumulator:
    def __init__(self):
        self.information = {}

    def update(self, predictions, targets):
        for key, target in targets.items():
            p = predictions[key].numpy()
            t = target.numpy()
            sse, n = self.information.get(key, (0.0, 0))
            self.information[key] = (sse + float(np.square(p - t).sum()), n + t.size)

    def finalize(self):
        return {f"{k} RMSE": (sse / n) ** 0.5 for k, (sse, n) in self.information.items()}


class Potential(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, systems):
        positions = [s[:, :3].detach().requires_grad_() for s in systems]
        energies = [self.net(torch.cat([p, s[:, 3:]], dim=1)).sum() for p, s in zip(positions, systems)]
        energy = torch.stack(energies)
        forces = torch.autograd.grad(energy.sum(), positions)
        return {"energy": energy.detach(), "forces": -torch.cat(forces)}


def random_batch(n_systems=16):
    systems = [torch.randn(int(torch.randint(50, 200, (1,))), 4, dtype=torch.float64) for _ in range(n_systems)]
    atoms = sum(len(s) for s in systems)
    targets = {"energy": torch.randn(n_systems, dtype=torch.float64), "forces": torch.randn(atoms, 3, dtype=torch.float64)}
    extra = {"mask": torch.ones(atoms, dtype=torch.bool)}
    return systems, targets, extra


def evaluate(model, batches, device):
    accumulator = RMSEAccumulator()
    for systems, targets, extra in batches:
        systems, targets, extra = batch_to(systems, targets, extra, device, torch.float32)
        predictions = model(systems)
        _, predictions, _ = batch_to([], predictions, {}, "cpu", torch.float32)
        _, targets, _ = batch_to([], targets, {}, "cpu", torch.float32)
        accumulator.update(predictions, targets)
    return accumulator.finalize()


if __name__ == "__main__":
    device = torch.device("cuda", 0)
    print(evaluate(Potential().to(device), [random_batch() for _ in range(20)], device))
