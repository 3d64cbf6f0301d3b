import torch


class NewtonSchulz:
    """Inverse square root by iteration on a stream of its own."""

    def __init__(self, max_steps=32, tol=1e-5, device="cuda"):
        self.max_steps = max_steps
        self.tol = tol
        self.stream = torch.cuda.Stream(device)

    def _iterate(self, m):
        n = m.shape[-1]
        eye = torch.eye(n, device=m.device, dtype=m.dtype)
        norm = m.norm()
        y = m / norm
        z = eye.clone()
        for step in range(self.max_steps):
            t = 0.5 * (3.0 * eye - z @ y)
            y = y @ t
            z = t @ z
            residual = (z @ y - eye).norm() / n
            if residual.item() < self.tol:
                break
        return z / norm.sqrt(), step + 1

    def __call__(self, m):
        caller = torch.cuda.current_stream(m.device)
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            m.record_stream(self.stream)
            root, steps = self._iterate(m)
            if not bool(torch.isfinite(root).all()):
                raise FloatingPointError("Newton-Schulz iteration diverged")
        caller.wait_stream(self.stream)
        root.record_stream(caller)
        return root, steps


class Whitening:
    def __init__(self, dim, momentum=0.1, device="cuda"):
        self.mean = torch.zeros(dim, device=device)
        self.cov = torch.eye(dim, device=device)
        self.momentum = momentum
        self.inverse_root = NewtonSchulz(device=device)

    @torch.no_grad()
    def update(self, x):
        mean = x.mean(0)
        centred = x - mean
        cov = centred.T @ centred / max(x.shape[0] - 1, 1)
        self.mean.lerp_(mean, self.momentum)
        self.cov.lerp_(cov, self.momentum)

    @torch.no_grad()
    def transform(self, x):
        root, steps = self.inverse_root(self.cov)
        return (x - self.mean) @ root, steps


def whiten_dataset(batches, dim):
    whitening = Whitening(dim)
    for x in batches:
        whitening.update(x.cuda())
    return [whitening.transform(x.cuda())[0].cpu() for x in batches]
