"""Call a hand written kernel on JAX arrays from outside of jit."""
import cupy as cp
import jax
import jax.numpy as jnp
import numpy as np

_ROPE = cp.RawKernel(
    r"""
extern "C" __global__
void rope(const float* x, const float* cosv, const float* sinv, float* y, int rows, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * half) return;
    int r = i / half, c = i % half;
    float a = x[r * 2 * half + c], b = x[r * 2 * half + half + c];
    y[r * 2 * half + c] = a * cosv[i] - b * sinv[i];
    y[r * 2 * half + half + c] = b * cosv[i] + a * sinv[i];
}
""",
    "rope",
)


@jax.jit
def project(x, w):
    return jnp.dot(x, w)


@jax.jit
def tables(positions, inv_freq):
    angle = positions[:, None] * inv_freq[None, :]
    return jnp.cos(angle), jnp.sin(angle)


def as_cupy(array):
    """Zero copy view; the JAX array has to outlive it."""
    mem = cp.cuda.UnownedMemory(array.unsafe_buffer_pointer(), array.nbytes, array)
    return cp.ndarray(array.shape, dtype=np.dtype(array.dtype), memptr=cp.cuda.MemoryPointer(mem, 0))


class RopeOp:
    def __init__(self, dim, base=10000.0):
        self.half = dim // 2
        self.inv_freq = jnp.asarray(1.0 / base ** (np.arange(self.half) / self.half), jnp.float32)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def execute(self, q, positions):
        cosv, sinv = tables(positions, self.inv_freq)
        jax.block_until_ready((q, cosv, sinv))
        rows = q.shape[0]
        with self.stream:
            out = cp.empty(q.shape, dtype=cp.float32)
            total = rows * self.half
            _ROPE(
                ((total + 255) // 256,), (256,),
                (as_cupy(q), as_cupy(cosv), as_cupy(sinv), out, np.int32(rows), np.int32(self.half)),
            )
        self.stream.synchronize()
        return out


def attention_scores(x, wq, wk, positions):
    op = RopeOp(wq.shape[1])
    q = op.execute(project(x, wq), positions)
    k = op.execute(project(x, wk), positions)
    qj, kj = jnp.from_dlpack(q), jnp.from_dlpack(k)
    scores = jax.nn.softmax(qj @ kj.T / np.sqrt(wq.shape[1]), axis=-1)
    return jax.block_until_ready(scores)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    xs = jax.random.normal(key, (512, 256))
    w1 = jax.random.normal(key, (256, 128))
    print(np.asarray(attention_scores(xs, w1, w1, jnp.arange(512.0))).sum())
