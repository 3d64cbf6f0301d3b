"""A Warp relaxation captured on a PyTorch stream and replayed per call."""
import torch
import warp as wp

wp.init()


@wp.kernel
def jacobi(src: wp.array2d(dtype=float), rhs: wp.array2d(dtype=float), dst: wp.array2d(dtype=float)):
    i, j = wp.tid()
    n = src.shape[0]
    m = src.shape[1]
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        dst[i, j] = 0.25 * (src[i - 1, j] + src[i + 1, j] + src[i, j - 1] + src[i, j + 1] - rhs[i, j])


class GraphRelaxer:
    def __init__(self, n: int, sweeps: int, device: str = "cuda:0"):
        self.device = torch.device(device)
        self.rhs = torch.zeros(n, n, device=self.device)
        self.a = torch.zeros(n, n, device=self.device)
        self.b = torch.zeros(n, n, device=self.device)
        self.torch_stream = torch.cuda.Stream(self.device)
        self.torch_stream.wait_stream(torch.cuda.current_stream(self.device))
        self.wp_stream = wp.stream_from_torch(self.torch_stream)
        self._rhs, self._a, self._b = (wp.from_torch(t) for t in (self.rhs, self.a, self.b))
        wp.load_module(device=device)
        with wp.ScopedStream(self.wp_stream):
            wp.capture_begin(device=device)
            try:
                for _ in range(sweeps):
                    wp.launch(jacobi, dim=(n, n), inputs=[self._a, self._rhs], outputs=[self._b], device=device)
                    wp.launch(jacobi, dim=(n, n), inputs=[self._b, self._rhs], outputs=[self._a], device=device)
            finally:
                self.graph = wp.capture_end(device=device)

    def __call__(self, rhs: torch.Tensor) -> torch.Tensor:
        caller = torch.cuda.current_stream(self.device)
        self.torch_stream.wait_stream(caller)
        with torch.cuda.stream(self.torch_stream):
            self.rhs.copy_(rhs)
            self.a.zero_()
            self.b.zero_()
            wp.capture_launch(self.graph, stream=self.wp_stream)
            out = self.a.clone()
        caller.wait_stream(self.torch_stream)
        out.record_stream(caller)
        return out


def main():
    relax = GraphRelaxer(256, sweeps=50)
    fields = []
    for _ in range(10):
        rhs = torch.randn(256, 256, device="cuda:0")
        fields.append(relax(rhs - rhs.mean()))
    print(torch.stack(fields).std().item())


if __name__ == "__main__":
    main()
