import torch


class TorchForceGraph:
    """Evaluates a potential with a CUDA graph for an OpenMM context."""

    def __init__(self, model, num_atoms, context_stream_ptr, warmup_steps=5, device="cuda"):
        self.model = model
        self.device = torch.device(device)
        self.context_stream = torch.cuda.ExternalStream(context_stream_ptr, device=self.device)
        self.graph_stream = torch.cuda.Stream(self.device)
        self.warmup_steps = warmup_steps
        self.positions = torch.zeros((num_atoms, 3), device=self.device, requires_grad=True)
        self.energy = None
        self.forces = None
        self.graph = None

    def _compute(self):
        energy = self.model(self.positions)
        (grad,) = torch.autograd.grad(energy, self.positions)
        return energy.detach(), -grad

    def _capture(self):
        self.graph_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.graph_stream):
            for _ in range(self.warmup_steps):
                self._compute()
        torch.cuda.synchronize(self.device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.graph_stream):
            self.energy, self.forces = self._compute()
        torch.cuda.synchronize(self.device)

    def execute(self, positions, force_buffer):
        """positions and force_buffer are written and read on the context's stream."""
        if self.graph is None:
            self._capture()
        with torch.cuda.stream(self.context_stream):
            with torch.no_grad():
                self.positions.copy_(positions)
            self.graph.replay()
            force_buffer.add_(self.forces.to(force_buffer.dtype))
        return force_buffer

    def potential_energy(self):
        torch.cuda.synchronize(self.device)
        return float(self.energy)


def run(integrator, force, state, steps):
    for _ in range(steps):
        state.force_buffer_zero(force.context_stream)
        force.execute(state.positions, state.forces)
        integrator.step(state, force.context_stream)
    return force.potential_energy()
