import torch
import torch.nn.functional as F
from torch import nn


class MLAAttention(nn.Module):
    def __init__(self, hidden, heads, kv_rank, nope, v_dim):
        super().__init__()
        self.heads, self.nope, self.v_dim, self.kv_rank = heads, nope, v_dim, kv_rank
        self.q_proj = nn.Linear(hidden, heads * nope, bias=False)
        self.kv_a_proj = nn.Linear(hidden, kv_rank, bias=False)
        self.kv_b_proj = nn.Linear(kv_rank, heads * (nope + v_dim), bias=False)
        self.o_proj = nn.Linear(heads * v_dim, hidden, bias=False)
        self.w_kc = None
        self.w_vc = None

    def post_load_weights(self):
        w = self.kv_b_proj.weight.detach().unflatten(0, (self.heads, self.nope + self.v_dim))
        w_kc, w_vc = w.split([self.nope, self.v_dim], dim=1)
        self.w_kc = w_kc.contiguous()
        self.w_vc = w_vc.transpose(1, 2).contiguous()

    def forward_absorb(self, x, latent_cache, positions):
        bs = x.shape[0]
        q = self.q_proj(x).view(bs, self.heads, self.nope)
        latent = self.kv_a_proj(x)
        latent_cache.index_copy_(0, positions, latent)
        q_latent = torch.bmm(q.transpose(0, 1), self.w_kc).transpose(0, 1)
        scores = torch.einsum("bhr,tr->bht", q_latent, latent_cache)
        ctx = torch.einsum("bht,tr->bhr", F.softmax(scores, dim=-1), latent_cache)
        out = torch.bmm(ctx.transpose(0, 1), self.w_vc).transpose(0, 1).reshape(bs, -1)
        return self.o_proj(out)


class DeepseekModel(nn.Module):
    def __init__(self, n_layers, hidden=512, heads=8, kv_rank=128, nope=64, v_dim=64):
        super().__init__()
        self.layers = nn.ModuleList(MLAAttention(hidden, heads, kv_rank, nope, v_dim) for _ in range(n_layers))

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, tensor in weights:
            params[name].data.copy_(tensor)
        for layer in self.layers:
            layer.post_load_weights()

    def forward(self, x, caches, positions):
        for layer, cache in zip(self.layers, caches):
            x = x + layer.forward_absorb(x, cache, positions)
        return x


class ModelRunner:
    def __init__(self, model, weights, max_tokens, kv_rank=128, hidden=512):
        self.model = model.cuda().eval()
        self.model.load_weights(weights)
        self.caches = [torch.zeros(max_tokens, kv_rank, device="cuda") for _ in model.layers]
        self.hidden = hidden
        self.graphs = {}

    @torch.inference_mode()
    def init_cuda_graphs(self, batch_sizes):
        for bs in batch_sizes:
            x = torch.zeros(bs, self.hidden, device="cuda")
            pos = torch.arange(bs, device="cuda")
            self.model(x, self.caches, pos)
            torch.cuda.synchronize()
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                out = self.model(x, self.caches, pos)
            self.graphs[bs] = (g, x, pos, out)

    @torch.inference_mode()
    def update_weights(self, weights):
        self.model.load_weights(weights)
        torch.cuda.empty_cache()

    @torch.inference_mode()
    def decode(self, x, positions):
        g, static_x, static_pos, out = self.graphs[x.shape[0]]
        static_x.copy_(x)
        static_pos.copy_(positions)
        g.replay()
        return out.clone()


def rl_loop(runner, trainer, rollouts):
    runner.init_cuda_graphs([1, 4, 8])
    for batch in rollouts:
        outs = [runner.decode(x, pos) for x, pos in batch]
        trainer.update(outs)
        runner.update_weights(trainer.named_weights())
