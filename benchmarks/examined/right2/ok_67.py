"""A JAX feature extractor scored by a PyTorch head."""
import jax
import jax.dlpack
import jax.numpy as jnp
import torch


@jax.jit
def fourier_features(x, freqs):
    proj = 2.0 * jnp.pi * x @ freqs
    return jnp.concatenate([jnp.sin(proj), jnp.cos(proj)], axis=-1)


class JaxExtractor:
    def __init__(self, dim, width, seed=0):
        key = jax.random.PRNGKey(seed)
        self.freqs = jax.block_until_ready(jax.random.normal(key, (dim, width)))

    def __call__(self, batch):
        torch.cuda.current_stream().synchronize()
        x = jax.dlpack.from_dlpack(batch.contiguous())
        features = fourier_features(x, self.freqs)
        features.block_until_ready()
        return features


class Scorer:
    def __init__(self, extractor, head):
        self.extractor = extractor
        self.head = head

    @torch.inference_mode()
    def score(self, batch):
        features = self.extractor(batch)
        borrowed = torch.from_dlpack(features)
        scores = self.head(borrowed).squeeze(-1).tolist()
        del borrowed
        return scores


def main(rounds=10):
    head = torch.nn.Linear(512, 1).cuda()
    scorer = Scorer(JaxExtractor(32, 256), head)
    batch = torch.empty(1024, 32, device="cuda")
    means = []
    for _ in range(rounds):
        batch.normal_()
        scores = scorer.score(batch)
        means.append(sum(scores) / len(scores))
    return means


if __name__ == "__main__":
    print(main())
