"""Mixtral inference with experts split between CPU and GPU."""
import time

import torch
import torch.nn.functional as F


class FiddlerMixtral:
    def __init__(self, model, expert_loc, dev="cuda:0", n_expert=8):
        self.dev = torch.device(dev)
        self.lm_head = model.lm_head
        self.model = model.model
        self.expert_loc = expert_loc
        self.n_layer = len(self.model.layers)
        self.n_expert = n_expert
        self.cpu_time = 0.0
        self.cnt_expert_hit = 0
        self.cnt_expert_all = 0

    def is_expert_in_gpu(self, i_layer, i_expert):
        return self.expert_loc[i_layer][i_expert] == 1

    def run_expert_at_cpu(self, i_layer, i_expert, inps):
        expert = self.model.layers[i_layer].block_sparse_moe.experts[i_expert]
        tick = time.perf_counter()
        hidden = F.silu(F.linear(inps, expert.w1.weight)) * F.linear(inps, expert.w3.weight)
        out = F.linear(hidden, expert.w2.weight)
        self.cpu_time += time.perf_counter() - tick
        return out

    def run_expert_at_gpu(self, i_layer, i_expert, inps):
        expert = self.model.layers[i_layer].block_sparse_moe.experts[i_expert]
        return expert(inps)

    @torch.no_grad()
    def mixtral_moe(self, i_layer, inps):
        layer = self.model.layers[i_layer].block_sparse_moe
        shape = inps.shape
        inps = inps.view(-1, shape[-1])
        router_logits = layer.gate(inps)
        weights = F.softmax(router_logits, dim=1)
        weights, selected = torch.topk(weights, 2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        mask = F.one_hot(selected, num_classes=self.n_expert).permute(2, 1, 0)

        after = torch.zeros_like(inps)
        for i_expert in range(self.n_expert):
            idx, top_x = torch.where(mask[i_expert])
            if top_x.shape[0] == 0:
                continue
            self.cnt_expert_all += 1
            current = inps[top_x]
            if self.is_expert_in_gpu(i_layer, i_expert):
                self.cnt_expert_hit += 1
                out = self.run_expert_at_gpu(i_layer, i_expert, current)
            else:
                out = self.run_expert_at_cpu(
                    i_layer,
                    i_expert,
                    current.to("cpu", non_blocking=True),
                )
                out = out.to(self.dev, non_blocking=True)
            after.index_add_(0, top_x, out * weights[top_x, idx, None])
        return after.view(shape)

    @torch.no_grad()
    def forward(self, input_ids):
        hidden = self.model.embed_tokens(input_ids)
        for i_layer, layer in enumerate(self.model.layers):
            residual = hidden
            hidden = layer.self_attn(layer.input_layernorm(hidden))[0]
            hidden = residual + hidden
            residual = hidden
            hidden = self.mixtral_moe(i_layer, layer.post_attention_layernorm(hidden))
            hidden = residual + hidden
        return self.lm_head(self.model.norm(hidden))
