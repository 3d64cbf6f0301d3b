import argparse
from collections import defaultdict

import torch
from torch.utils.data import DataLoader


class ActivationCollector:
    """Accumulates the activations of some modules on the CPU."""

    def __init__(self, model, names, max_rows=2_000_000):
        self.model = model
        self.names = set(names)
        self.max_rows = max_rows
        self.acc = {}
        self.rows = defaultdict(int)
        self._handles = []

    def __enter__(self):
        for name, module in self.model.named_modules():
            if name in self.names:
                hook = lambda m, i, o, name=name: self._append(name, o)
                self._handles.append(module.register_forward_hook(hook))
        return self

    def __exit__(self, *exc):
        for h in self._handles:
            h.remove()
        self._handles.clear()

    def _append(self, name, output):
        if isinstance(output, tuple):
            output = output[0]
        rows = output.detach().flatten(0, -2).to(torch.float16)
        room = self.max_rows - self.rows[name]
        if room <= 0:
            return
        rows = rows[:room]
        self.rows[name] += rows.shape[0]
        cpu = rows.to(device="cpu", non_blocking=True)
        if name not in self.acc:
            self.acc[name] = cpu
        else:
            self.acc[name] = torch.cat([self.acc[name], cpu], dim=0)


@torch.no_grad()
def collect(model, dataset, names, batch_size, device="cuda"):
    model.eval().to(device)
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=4, pin_memory=True)
    with ActivationCollector(model, names) as collector:
        for batch in loader:
            model(batch.to(device, non_blocking=True))
    torch.cuda.synchronize()
    return collector.acc


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--layers", nargs="+", required=True)
    parser.add_argument("--out", default="activations.pt")
    args = parser.parse_args()
    model = torch.load(args.model, weights_only=False)
    dataset = torch.load(args.data)
    torch.save(collect(model, dataset, args.layers, 64), args.out)


if __name__ == "__main__":
    main()
