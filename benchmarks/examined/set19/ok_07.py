"""A torch renderer inside a JAX optimisation loop; arrays change hands through DLPack."""
import jax
import jax.numpy as jnp
import torch


class TorchRenderer:
    """Renders on its own stream; the caller owns the inputs."""

    def __init__(self, resolution):
        self.stream = torch.cuda.Stream()
        ys, xs = torch.meshgrid(
            torch.linspace(-1, 1, resolution), torch.linspace(-1, 1, resolution), indexing="ij"
        )
        self.grid = torch.stack([xs, ys], -1).view(1, -1, 2).cuda()
        self.resolution = resolution
        self.stream.wait_stream(torch.cuda.current_stream())

    def __call__(self, centers, colors, weight):
        with torch.cuda.stream(self.stream):
            c = torch.from_dlpack(centers).requires_grad_(False)
            rgb = torch.from_dlpack(colors)
            d2 = (self.grid - c.unsqueeze(1)).square().sum(-1)
            alpha = torch.exp(-d2 * weight)
            image = (alpha.unsqueeze(-1) * rgb.unsqueeze(1)).sum(0)
            image = image.view(self.resolution, self.resolution, 3).contiguous()
            self.stream.synchronize()
        return image


def pull_image(image, stream):
    """The producer's stream is current while the capsule is made, so the protocol orders both sides."""
    with torch.cuda.stream(stream):
        return jax.dlpack.from_dlpack(image)


@jax.jit
def residual(image, target):
    return jnp.mean((image - target) ** 2)


@jax.jit
def perturb(key, centers, scale):
    return centers + scale * jax.random.normal(key, centers.shape)


def random_search(target, num_gaussians=256, steps=100, resolution=256):
    renderer = TorchRenderer(resolution)
    key = jax.random.PRNGKey(0)
    centers = jax.random.uniform(key, (num_gaussians, 2), minval=-1.0, maxval=1.0)
    colors = jnp.full((num_gaussians, 3), 1.0 / num_gaussians)
    best, best_err = centers, jnp.inf
    for step in range(steps):
        key, sub = jax.random.split(key)
        candidate = perturb(sub, best, 0.1 / (1 + step))
        image = renderer(candidate, colors, 40.0)
        err = residual(pull_image(image, renderer.stream), target)
        err = float(err.block_until_ready())
        if err < best_err:
            best, best_err = candidate, err
        del image
    return best, best_err


if __name__ == "__main__":
    goal = jnp.zeros((256, 256, 3)).at[64:192, 64:192].set(0.5)
    centers, err = random_search(goal)
    print(centers.shape, err)
