import torch

from moe import ExpertBank, ExpertLoader, ExpertSlot, SparseMLP

DIM, INNER = 2048, 8192


def build(n_experts=16, n_slots=2):
    bank = ExpertBank(n_experts, DIM, INNER)
    slots = [ExpertSlot(DIM, INNER) for _ in range(n_slots)]
    loader = ExpertLoader(bank, slots)
    return SparseMLP(DIM, loader).cuda().half().eval()


def spread(norms):
    lo, hi = min(norms), max(norms)
    return (hi - lo) / hi if hi else 0.0


@torch.inference_mode()
def main():
    torch.cuda.set_device(0)
    torch.manual_seed(0)
    layer = build()
    norms = []
    for _ in range(20):
        x = torch.randn(16384, DIM, device="cuda", dtype=torch.float16)
        x = x + layer(x)
        norms.append(x.float().norm())
    values = torch.stack(norms).tolist()
    print(values)
    print("spread", round(spread(values), 4), layer.loader.stats())


if __name__ == "__main__":
    main()
