"""Feature bridge: volumes are prepared by PyTorch on a side stream and consumed by a jitted JAX step."""
import jax
import jax.dlpack
import jax.numpy as jnp
import torch
from torch.utils import dlpack as torch_dlpack


class VolumeFeed:
    """Crops, normalises and lays out volumes for the JAX side."""

    def __init__(self, volumes, crop):
        self.volumes = volumes
        self.crop = crop
        self.stream = torch.cuda.Stream()

    def _crop(self, volume, origin):
        z, y, x = origin
        c = self.crop
        return volume[:, z : z + c, y : y + c, x : x + c]

    def prepare(self, index, origin):
        with torch.cuda.stream(self.stream):
            volume = self.volumes[index].to("cuda", non_blocking=True)
            patch = self._crop(volume.float(), origin)
            patch = (patch - patch.mean()) / patch.std().clamp(min=1e-6)
            return patch.permute(1, 2, 3, 0).contiguous()


def as_jax(tensor):
    """Hand a contiguous CUDA tensor to JAX without a copy."""
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return jax.dlpack.from_dlpack(torch_dlpack.to_dlpack(tensor))


def init_params(key, channels, features):
    k1, k2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (channels, features)) * 0.02,
        "w2": jax.random.normal(k2, (features, channels)) * 0.02,
    }


def loss_fn(params, patch):
    hidden = jax.nn.gelu(jnp.einsum("zyxc,cf->zyxf", patch, params["w1"]))
    recon = jnp.einsum("zyxf,fc->zyxc", hidden, params["w2"])
    return jnp.mean((recon - patch) ** 2)


@jax.jit
def train_step(params, patch):
    loss, grads = jax.value_and_grad(loss_fn)(params, patch)
    params = jax.tree_util.tree_map(lambda p, g: p - 1e-3 * g, params, grads)
    return params, loss


def fit(volumes, steps, crop=64):
    feed = VolumeFeed([v.pin_memory() for v in volumes], crop)
    params = init_params(jax.random.PRNGKey(0), volumes[0].shape[0], 128)
    kept = []
    losses = []
    for step in range(steps):
        patch = feed.prepare(step % len(volumes), (step % 8, step % 8, step % 8))
        kept.append(patch)
        params, loss = train_step(params, as_jax(patch))
        losses.append(loss)
    jax.block_until_ready(params)
    torch.cuda.synchronize()
    kept.clear()
    return params, [float(value) for value in losses]


if __name__ == "__main__":
    data = [torch.randn(4, 96, 96, 96) for _ in range(6)]
    _, history = fit(data, 24)
    print(history[-1])
