import torch


class PendingTensor:
    """A tensor produced by a side stream; reading ``value`` joins it with the reader."""

    def __init__(self, tensor: torch.Tensor, stream: torch.cuda.Stream):
        self._tensor = tensor
        self._event = stream.record_event()
        self._seen = set()

    @property
    def value(self) -> torch.Tensor:
        reader = torch.cuda.current_stream()
        if reader.cuda_stream not in self._seen:
            reader.wait_event(self._event)
            self._tensor.record_stream(reader)
            self._seen.add(reader.cuda_stream)
        return self._tensor

    @property
    def shape(self):
        return self._tensor.shape

    def item(self) -> float:
        self._event.synchronize()
        return self._tensor.item()


class GradNormTracker:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def compute(self, grads) -> PendingTensor:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            norms = torch.stack([g.norm() for g in grads])
            for g in grads:
                g.record_stream(self.stream)
            return PendingTensor(norms.norm(), self.stream)


def clip_(grads, total: PendingTensor, max_norm: float):
    coef = torch.clamp(max_norm / (total.value + 1e-6), max=1.0)
    torch._foreach_mul_(grads, coef)


def main():
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.Tanh(), torch.nn.Linear(1024, 1)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    tracker = GradNormTracker()
    log = []
    for step in range(100):
        x = torch.randn(128, 256, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        grads = [p.grad for p in model.parameters()]
        total = tracker.compute(grads)
        clip_(grads, total, 1.0)
        opt.step()
        opt.zero_grad()
        if step % 10 == 0:
            log.append((step, total.item()))
    print(log)


if __name__ == "__main__":
    main()
