"""Differentiable-free shape fitting: Warp distance kernel inside a torch stream."""
import torch
import warp as wp

wp.init()


@wp.kernel
def nearest(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), m: int,
            best: wp.array(dtype=float), which: wp.array(dtype=int)):
    i = wp.tid()
    d = float(1.0e30)
    k = int(0)
    for j in range(m):
        e = wp.length_sq(a[i] - b[j])
        if e < d:
            d = e
            k = j
    best[i] = d
    which[i] = k


class Matcher:
    """Nearest-neighbour search that follows the caller's torch stream."""

    def __init__(self, points, device="cuda:0"):
        self.device = device
        self.best = torch.empty(points, device=device)
        self.which = torch.empty(points, dtype=torch.int32, device=device)

    def __call__(self, a, b):
        stream = wp.stream_from_torch(torch.cuda.current_stream())
        with wp.ScopedStream(stream):
            wp.launch(
                nearest, dim=a.size(0),
                inputs=[wp.from_torch(a, dtype=wp.vec3), wp.from_torch(b, dtype=wp.vec3), b.size(0)],
                outputs=[wp.from_torch(self.best), wp.from_torch(self.which)],
                device=self.device,
            )
        return self.best, self.which


def kabsch(src, dst):
    cs, cd = src.mean(0), dst.mean(0)
    u, _, vt = torch.linalg.svd((src - cs).T @ (dst - cd))
    sign = torch.sign(torch.linalg.det(vt.T @ u.T))
    fix = torch.ones(3, device=src.device)
    fix[2] = sign
    r = (vt.T * fix) @ u.T
    return r, cd - r @ cs


class Icp:
    def __init__(self, points, device="cuda:0"):
        self.match = Matcher(points, device)
        self.stream = torch.cuda.Stream(device)

    def register(self, scan, model, iters):
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            moved = scan.clone()
            history = []
            for _ in range(iters):
                dist, idx = self.match(moved, model)
                history.append(dist.sqrt().mean())
                r, t = kabsch(moved, model[idx.long()])
                moved = (moved @ r.T + t).contiguous()
            trace = torch.stack(history)
        caller.wait_stream(self.stream)
        moved.record_stream(caller)
        trace.record_stream(caller)
        return moved, trace


def make_pair(n, device):
    g = torch.Generator(device=device).manual_seed(6)
    model = torch.randn(n, 3, generator=g, device=device)
    model = model / model.norm(dim=1, keepdim=True) * torch.tensor([1.0, 0.7, 0.4], device=device)
    ang = torch.tensor(0.3, device=device)
    c, s, o, z = ang.cos(), ang.sin(), torch.ones((), device=device), torch.zeros((), device=device)
    r = torch.stack([torch.stack([c, -s, z]), torch.stack([s, c, z]), torch.stack([z, z, o])])
    scan = (model @ r.T + torch.tensor([0.1, -0.05, 0.02], device=device)).contiguous()
    return scan, model.contiguous()


def main():
    device = "cuda:0"
    n = 20000
    icp = Icp(n, device)
    scan, model = make_pair(n, device)
    moved, trace = icp.register(scan, model, 25)
    print([round(v, 5) for v in trace.tolist()][::6])
    print("residual", (moved - model).norm(dim=1).mean().item())


if __name__ == "__main__":
    main()
