import functools

import jax
import jax.numpy as jnp
import torch
from jax import dlpack as jax_dlpack


def jax_op(fn):
    """Turns a jitted JAX function into one on torch CUDA tensors."""
    compiled = jax.jit(fn)

    @functools.wraps(fn)
    def wrapper(*tensors):
        stream = torch.cuda.current_stream()
        dense = [t.detach().contiguous() for t in tensors]
        stream.synchronize()
        args = [jax_dlpack.from_dlpack(t) for t in dense]
        out = compiled(*args)
        out.block_until_ready()
        result = torch.from_dlpack(out).clone()
        stream.synchronize()
        return result

    return wrapper


@jax_op
def rbf(x, y):
    d = jnp.sum(x * x, 1)[:, None] + jnp.sum(y * y, 1)[None] - 2.0 * x @ y.T
    return jnp.exp(-0.5 * jnp.maximum(d, 0.0))


class NystromFeatures(torch.nn.Module):
    def __init__(self, landmarks):
        super().__init__()
        self.register_buffer("landmarks", landmarks)
        self.out = torch.nn.Linear(landmarks.shape[0], 10)

    def forward(self, x):
        return self.out(rbf(x, self.landmarks))


def main():
    side = torch.cuda.Stream()
    model = NystromFeatures(torch.randn(64, 16)).cuda()
    opt = torch.optim.Adam(model.parameters())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(20):
            x = torch.randn(256, 16, device="cuda")
            loss = torch.logsumexp(model(x), 1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(loss.item())


if __name__ == "__main__":
    main()
