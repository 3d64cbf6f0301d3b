"""Batch pool for JAX training: host buffers are recycled when the device
arrays that were made from them are ready."""
import collections
import threading

import jax
import jax.numpy as jnp
import numpy as np


class BatchPool:
    def __init__(self, n, shape, dtype=np.float32):
        self._free = collections.deque(np.empty(shape, dtype) for _ in range(n))
        self._cond = threading.Condition()

    def acquire(self):
        with self._cond:
            while not self._free:
                self._cond.wait()
            return self._free.popleft()

    def release(self, buf):
        with self._cond:
            self._free.append(buf)
            self._cond.notify()


class Feeder:
    def __init__(self, pool, device, depth=2):
        self.pool, self.device = pool, device
        self.inflight = collections.deque()
        self.depth = depth

    def feed(self, fill):
        buf = self.pool.acquire()
        fill(buf)
        arr = jax.device_put(buf, self.device)
        self.inflight.append((buf, arr))
        while len(self.inflight) > self.depth:
            self._retire()
        return arr

    def _retire(self):
        buf, arr = self.inflight.popleft()
        arr.block_until_ready()
        self.pool.release(buf)

    def close(self):
        while self.inflight:
            self._retire()


@jax.jit
def train_step(params, batch, lr):
    def loss_fn(p):
        h = jnp.tanh(batch @ p["w1"])
        return jnp.mean((h @ p["w2"] - batch) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads), loss


def main(steps=200, batch=1024, dim=512):
    device = jax.devices("gpu")[0]
    key = jax.random.PRNGKey(0)
    k1, k2 = jax.random.split(key)
    params = jax.device_put({
        "w1": jax.random.normal(k1, (dim, 64)) * 0.05,
        "w2": jax.random.normal(k2, (64, dim)) * 0.05,
    }, device)
    pool = BatchPool(4, (batch, dim))
    feeder = Feeder(pool, device)
    rng = np.random.default_rng(0)
    losses = []
    for step in range(steps):
        x = feeder.feed(lambda b: rng.standard_normal(out=b, dtype=np.float32))
        params, loss = train_step(params, x, 1e-2)
        losses.append(loss)
    feeder.close()
    print(float(losses[0]), float(losses[-1]))


if __name__ == "__main__":
    main()
