import torch


class GradAverager:
    """Post-processes gradients as they become available in the backward pass."""

    def __init__(self, params, world):
        self.params = [p for p in params if p.requires_grad]
        self.world = float(world)
        self.stream = torch.cuda.Stream()
        self.handles = [p.register_post_accumulate_grad_hook(self._hook) for p in self.params]

    def _hook(self, p):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            p.grad.div_(self.world)

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.stream)

    def remove(self):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def __len__(self):
        return len(self.params)
