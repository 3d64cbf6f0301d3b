import torch


class GradSpill:
    """Host copies of the gradients, one pinned buffer a parameter."""

    def __init__(self, params, lane):
        self.params = [p for p in params if p.requires_grad]
        self.lane = lane
        self.host = [
            torch.empty(p.shape, dtype=torch.float32, pin_memory=True) for p in self.params
        ]

    def __call__(self):
        with self.lane.beside():
            for h, p in zip(self.host, self.params):
                h.copy_(p.grad, non_blocking=True)
        self.lane.mark()

    @property
    def nbytes(self):
        return sum(h.numel() * h.element_size() for h in self.host)

    def __len__(self):
        return len(self.params)

    def names(self, model):
        """Parameter names in the order of the host buffers."""
        by_id = {id(p): n for n, p in model.named_parameters()}
        return [by_id[id(p)] for p in self.params]
