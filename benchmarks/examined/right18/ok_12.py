"""Per-parameter gradient statistics computed while backward continues."""
import torch


class _GradientStats:
    def __init__(self, model, device="cuda"):
        self.device = torch.device(device)
        self.side = torch.cuda.Stream(self.device)
        self.events = {}
        self.squares = {}
        self.handles = []
        for name, p in model.named_parameters():
            if p.requires_grad:
                self.handles.append(p.register_hook(self._before(name)))
                after = p.register_post_accumulate_grad_hook(self._after(name))
                self.handles.append(after)

    def _before(self, name):
        def hook(grad):
            event = self.events.get(name)
            if event is not None:
                torch.cuda.current_stream(self.device).wait_event(event)

        return hook

    def _after(self, name):
        def hook(p):
            here = torch.cuda.current_stream(self.device)
            self.side.wait_event(here.record_event())
            with torch.cuda.stream(self.side):
                self.squares[name] = p.grad.float().square().sum()
                event = torch.cuda.Event()
                event.record(self.side)
            p.grad.record_stream(self.side)
            self.events[name] = event

        return hook

    def collect(self):
        here = torch.cuda.current_stream(self.device)
        for event in self.events.values():
            here.wait_event(event)
        for value in self.squares.values():
            value.record_stream(here)
        self.events.clear()
        taken, self.squares = self.squares, {}
        return taken

    def remove(self):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


class ClippedTrainer:
    def __init__(self, model, optimizer, limit=1.0):
        self.model = model
        self.optimizer = optimizer
        self.limit = limit
        self.stats = _GradientStats(model)

    def step(self, x, y, loss_fn):
        self.stats.collect()
        self.optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(self.model(x), y)
        loss.backward()
        squares = self.stats.collect()
        if squares:
            norm = torch.stack(list(squares.values())).sum().sqrt()
            scale = (self.limit / (norm + 1e-6)).clamp(max=1.0)
            for p in self.model.parameters():
                if p.grad is not None:
                    p.grad.mul_(scale)
            self.optimizer.step()
        return loss.detach()
