"""Sends only changed weight elements to a rollout worker."""
import torch


class DeltaTracker:
    def __init__(self, model, device):
        self.device = device
        self.h2d = torch.cuda.Stream(device)
        self.d2h = torch.cuda.Stream(device)
        self.snapshot = {}
        for name, p in model.named_parameters():
            host = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            host.copy_(p.detach())
            self.snapshot[name] = host

    def _upload(self, name):
        with torch.cuda.stream(self.h2d):
            old = self.snapshot[name].to(self.device, non_blocking=True)
        old.record_stream(torch.cuda.current_stream(self.device))
        return old

    def changed(self, name, weight):
        old = self._upload(name)
        mask = weight.ne(old).flatten()
        index = mask.nonzero().squeeze(1)
        return index, weight.flatten()[index]

    def refresh(self, name, weight):
        self.d2h.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.d2h):
            self.snapshot[name].copy_(weight, non_blocking=True)

    def finish(self):
        torch.cuda.current_stream(self.device).wait_stream(self.d2h)
        self.d2h.synchronize()

    @torch.no_grad()
    def flush(self, model, send):
        for name, p in model.named_parameters():
            index, values = self.changed(name, p.detach())
            send(name, index, values)
            self.refresh(name, p.detach())
        self.finish()


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
