"""Sends only changed weight elements to a rollout worker."""
import torch


class DeltaTracker:
    def __init__(self, model, device):
        self.device = device
        self.side = torch.cuda.Stream(device)
        self.snapshot = {}
        for name, p in model.named_parameters():
            host = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            host.copy_(p.detach())
            self.snapshot[name] = host

    def _diff(self, name, weight, main):
        with torch.cuda.stream(self.side):
            old = self.snapshot[name].to(self.device, non_blocking=True)
        main.wait_stream(self.side)
        old.record_stream(main)
        index = weight.ne(old).flatten().nonzero().squeeze(1)
        return index, weight.flatten()[index]

    @torch.no_grad()
    def flush(self, model, send):
        main = torch.cuda.current_stream(self.device)
        self.side.wait_stream(main)
        for name, p in model.named_parameters():
            index, values = self._diff(name, p.detach(), main)
            send(name, index, values)
            with torch.cuda.stream(self.side):
                self.snapshot[name].copy_(p.detach(), non_blocking=True)
        main.wait_stream(self.side)


def main():
    device = torch.device("cuda")
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(6)]).to(device)
    tracker = DeltaTracker(model, device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    sent = []
    for _ in range(5):
        model(torch.randn(8, 4096, device=device)).square().mean().backward()
        opt.step()
        opt.zero_grad()
        tracker.flush(model, lambda n, i, v: sent.append((n, i.numel())))
    print(len(sent))


if __name__ == "__main__":
    main()
