import torch
import torch.nn.functional as F


class WeightAsyncStreamManager:
    def __init__(self, blocks_cuda_buffer):
        self.init_stream = torch.cuda.Stream(priority=0)
        self.cuda_load_stream = torch.cuda.Stream(priority=0)
        self.compute_stream = torch.cuda.Stream(priority=-1)
        self.cuda_buffers = list(blocks_cuda_buffer)
        self.need_init_first_buffer = True

    def init_first_buffer(self, blocks):
        with torch.cuda.stream(self.init_stream):
            self.cuda_buffers[0].load_state_dict(blocks[0].state_dict())
        self.init_stream.synchronize()
        self.need_init_first_buffer = False

    def prefetch_weights(self, block_idx, blocks):
        with torch.cuda.stream(self.cuda_load_stream):
            self.cuda_buffers[1].load_state_dict(blocks[block_idx].state_dict())

    def swap_blocks(self):
        self.cuda_load_stream.synchronize()
        self.compute_stream.synchronize()
        self.cuda_buffers[0], self.cuda_buffers[1] = self.cuda_buffers[1], self.cuda_buffers[0]


class BlockWeights:
    def __init__(self, tensors):
        self.tensors = tensors

    @classmethod
    def cuda_like(cls, block):
        return cls({k: torch.empty_like(v, device="cuda") for k, v in block.tensors.items()})

    def state_dict(self):
        return self.tensors

    def load_state_dict(self, src):
        for k, v in src.items():
            self.tensors[k].copy_(v, non_blocking=True)


class TransformerInfer:
    def __init__(self, config, pre, post, blocks):
        self.config = config
        self.pre_weights = pre
        self.post_weights = post
        self.blocks = blocks
        cuda_buffers = [BlockWeights.cuda_like(blocks[0]) for _ in range(2)]
        self.offload_manager = WeightAsyncStreamManager(cuda_buffers)

    def infer_block(self, block, x, mod):
        w = block.state_dict()
        h = F.layer_norm(x, x.shape[-1:]) * (1 + mod)
        x = x + F.linear(F.silu(F.linear(h, w["fc1"])), w["fc2"])
        return x

    def infer_with_blocks_offload(self, x, mod):
        mgr = self.offload_manager
        for block_idx in range(len(self.blocks)):
            if mgr.need_init_first_buffer:
                mgr.init_first_buffer(self.blocks)
            mgr.prefetch_weights((block_idx + 1) % len(self.blocks), self.blocks)
            with torch.cuda.stream(mgr.compute_stream):
                x = self.infer_block(mgr.cuda_buffers[0], x, mod)
            mgr.swap_blocks()
        return x

    @torch.no_grad()
    def infer(self, latents, t):
        tokens = latents.flatten(2).transpose(1, 2).contiguous()
        x = F.linear(tokens, self.pre_weights["patch_embed"])
        mod = F.linear(F.silu(t), self.pre_weights["time_embed"]).unsqueeze(1)
        x = self.infer_with_blocks_offload(x, mod)
        x = F.layer_norm(x, x.shape[-1:])
        return F.linear(x, self.post_weights["head"])
