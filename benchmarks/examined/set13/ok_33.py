import jax
import jax.numpy as jnp
import torch


@jax.jit
def features(params, x):
    h = jnp.tanh(x @ params["w1"] + params["b1"])
    return h @ params["w2"]


def init_params(key, d_in, d_hidden, d_out):
    k1, k2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (d_in, d_hidden)) / d_in**0.5,
        "b1": jnp.zeros(d_hidden),
        "w2": jax.random.normal(k2, (d_hidden, d_out)) / d_hidden**0.5,
    }


class TorchHead(torch.nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.norm = torch.nn.LayerNorm(dim)
        self.fc = torch.nn.Linear(dim, classes)

    def forward(self, x):
        return self.fc(self.norm(x))


class HybridModel:
    def __init__(self, key, d_in, d_hidden, d_out, classes):
        self.params = init_params(key, d_in, d_hidden, d_out)
        self.head = TorchHead(d_out, classes).cuda().eval()
        self._live = []

    @torch.inference_mode()
    def logits(self, x):
        f = features(self.params, x)
        f.block_until_ready()
        t = torch.from_dlpack(f)
        self._live.append(f)
        return self.head(t)

    @torch.inference_mode()
    def posterior(self, x, prior):
        probs = torch.softmax(self.logits(x), dim=-1).contiguous()
        torch.cuda.current_stream().synchronize()
        self._live.clear()
        p = jnp.from_dlpack(probs)
        out = p * prior
        return (out / out.sum(axis=-1, keepdims=True)).block_until_ready()


def evaluate(batches, classes=10, seed=0):
    model = HybridModel(jax.random.PRNGKey(seed), 784, 512, 128, classes)
    prior = jnp.full((classes,), 1.0 / classes)
    hits = total = 0
    for x, y in batches:
        post = model.posterior(jnp.asarray(x), prior)
        hits += int((post.argmax(axis=-1) == jnp.asarray(y)).sum())
        total += len(y)
    return hits / total
