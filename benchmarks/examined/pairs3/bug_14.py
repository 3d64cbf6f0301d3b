"""Online PCA: CuPy whitens sensor blocks in place, JAX updates the components."""
import cupy as cp
import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def oja(w, x, eta):
    y = x @ w
    g = x.T @ y - w @ jnp.triu(y.T @ y)
    w = w + eta * g / x.shape[0]
    return w / jnp.linalg.norm(w, axis=0, keepdims=True)


class OnlinePCA:
    def __init__(self, rows, dims, k=8):
        self.block = cp.empty((rows, dims), cp.float32)
        self.w = jax.random.normal(jax.random.PRNGKey(0), (dims, k))

    def _whiten(self, raw):
        self.block[...] = cp.asarray(raw)
        self.block -= self.block.mean(axis=0)
        self.block /= self.block.std(axis=0) + 1e-6

    def update(self, raw, eta):
        self._whiten(raw)
        cp.cuda.get_current_stream().synchronize()
        x = jax.dlpack.from_dlpack(self.block)
        self.w = oja(self.w, x, eta)

    def components(self):
        return np.asarray(self.w)


def sensor(rows, dims, blocks, seed=0):
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(dims, dims)).astype(np.float32)
    for _ in range(blocks):
        yield rng.normal(size=(rows, dims)).astype(np.float32) @ mix


if __name__ == "__main__":
    pca = OnlinePCA(1 << 15, 512)
    for t, raw in enumerate(sensor(1 << 15, 512, 300)):
        pca.update(raw, 1.0 / (t + 10))
    np.save("components.npy", pca.components())
