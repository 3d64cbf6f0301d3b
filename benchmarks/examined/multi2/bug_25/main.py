import torch

from moe import ExpertCache, MoEConfig, SparseBlock, Speculator


def load_bank(cfg):
    bank = {}
    for layer in range(cfg.layers):
        for e in range(cfg.experts):
            w = torch.randn(cfg.expert_shape).half().mul_(0.02)
            bank[(layer, e)] = w.pin_memory()
    return bank


def build(cfg):
    cache = ExpertCache(cfg)
    speculator = Speculator(cfg, cache, load_bank(cfg))
    aside = torch.cuda.Stream() if cfg.overlap.routed_aside else None
    blocks = [
        SparseBlock(cfg, i, cache, speculator, aside).to(cfg.device).half()
        for i in range(cfg.layers)
    ]
    torch.cuda.synchronize()
    return blocks, speculator


def main():
    cfg = MoEConfig()
    torch.cuda.set_device(cfg.device)
    blocks, speculator = build(cfg)
    x = torch.randn(64, cfg.hidden, device=cfg.device).half()
    for _ in range(32):
        for block in blocks:
            x = block(x)
        x = x / x.norm(dim=-1, keepdim=True)
    torch.cuda.synchronize()
    print(float(x.float().sum()), speculator.missed)


if __name__ == "__main__":
    main()
