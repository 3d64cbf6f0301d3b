import torch
import warp as wp

wp.init()


@wp.kernel
def spring_force(x: wp.array(dtype=wp.vec3), rest: wp.array(dtype=wp.vec3),
                 k: float, f: wp.array(dtype=wp.vec3)):
    tid = wp.tid()
    f[tid] = (rest[tid] - x[tid]) * k


class CapturedStep:
    """One explicit step, half torch and half Warp, replayed from a CUDA graph."""

    def __init__(self, x, v, rest, k=50.0, dt=1e-3):
        self.device = x.device
        self.x = x.clone()
        self.v = v.clone()
        self.f = torch.zeros_like(x)
        self.push = torch.zeros_like(x)
        self.rest = rest
        self.k, self.dt = k, dt
        self.torch_stream = torch.cuda.Stream(self.device)
        self.warp_stream = wp.stream_from_torch(self.torch_stream)
        self.wp_x = wp.from_torch(self.x, dtype=wp.vec3)
        self.wp_f = wp.from_torch(self.f, dtype=wp.vec3)
        self.wp_rest = wp.from_torch(self.rest, dtype=wp.vec3)
        wp.load_module(device=wp.device_from_torch(self.device))
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _step(self):
        wp.launch(spring_force, dim=self.x.shape[0],
                  inputs=[self.wp_x, self.wp_rest, self.k], outputs=[self.wp_f],
                  stream=self.warp_stream)
        self.v.add_((self.f + self.push) * self.dt).mul_(0.999)
        self.x.add_(self.v * self.dt)

    def _capture(self):
        self.torch_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.torch_stream):
            self._step()
        torch.cuda.synchronize(self.device)
        with wp.ScopedStream(self.warp_stream), torch.cuda.graph(
                self.graph, stream=self.torch_stream):
            wp.capture_begin(stream=self.warp_stream, force_module_load=False, external=True)
            try:
                self._step()
            finally:
                wp.capture_end(stream=self.warp_stream)

    def __call__(self, push):
        caller = torch.cuda.current_stream(self.device)
        self.torch_stream.wait_stream(caller)
        with torch.cuda.stream(self.torch_stream):
            self.push.copy_(push)
            self.graph.replay()
        caller.wait_stream(self.torch_stream)
        return self.x


def simulate(x, v, rest, pushes):
    step = CapturedStep(x, v, rest)
    frames = [step(p).clone() for p in pushes]
    return torch.stack(frames).cpu()
