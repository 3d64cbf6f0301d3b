import cupy as cp
import torch


class ActivationStats:
    """Forward hooks that reduce activations with CuPy beside the model."""

    def __init__(self, model):
        self.stream = torch.cuda.Stream()
        self.lane = cp.cuda.ExternalStream(self.stream.cuda_stream)
        self.stats = {}
        self.handles = [m.register_forward_hook(self._hook(name))
                        for name, m in model.named_modules() if isinstance(m, torch.nn.Linear)]

    def _hook(self, name):
        def observe(module, args, output):
            act = output.detach()
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream), self.lane:
                a = cp.from_dlpack(act)
                moments = cp.stack([a.mean(), a.std(), cp.abs(a).max()])
                self.stats.setdefault(name, []).append(moments)
            act.record_stream(self.stream)
        return observe

    def summary(self):
        out = {}
        with self.lane:
            for name, rows in self.stats.items():
                out[name] = cp.stack(rows).mean(axis=0).tolist()
        self.stats.clear()
        return out

    def remove(self):
        for h in self.handles:
            h.remove()


def main():
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(),
                                torch.nn.Linear(256, 128), torch.nn.GELU(),
                                torch.nn.Linear(128, 10)).cuda().eval()
    stats = ActivationStats(model)
    with torch.no_grad():
        for _ in range(16):
            model(torch.randn(512, 128, device="cuda"))
    for name, (mean, std, peak) in stats.summary().items():
        print(name, round(mean, 4), round(std, 4), round(peak, 4))
    stats.remove()


if __name__ == "__main__":
    main()
