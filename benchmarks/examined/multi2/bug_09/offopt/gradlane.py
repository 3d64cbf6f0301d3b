import torch


class GradLane:
    """Sends every gradient to page-locked memory as soon as backward has made it."""

    def __init__(self, model):
        self.stream = torch.cuda.Stream()
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.host_grads = []
        self._held = []
        for i, p in enumerate(self.params):
            self.host_grads.append(torch.zeros(p.shape, dtype=torch.float32, pin_memory=True))
            p.register_post_accumulate_grad_hook(self._sender(i))

    def _sender(self, i):
        def send(p):
            grad = p.grad
            p.grad = None
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.host_grads[i].copy_(grad, non_blocking=True)
            grad.record_stream(self.stream)
            self._held.append(i)

        return send

    def arrived(self):
        order, self._held = self._held, []
        return order

    @property
    def nbytes(self):
        return sum(g.numel() * g.element_size() for g in self.host_grads)

    def __len__(self):
        return len(self.params)
