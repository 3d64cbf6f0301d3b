import torch

from kv import HostBackedCache
from kv.attention import Tower
from runner import Lanes, Runner

LAYERS, HIDDEN, HEADS, PROMPT = 8, 1024, 16, 4096


def prompt_pairs(device):
    shape = (1, HEADS, PROMPT, HIDDEN // HEADS)
    for _ in range(LAYERS):
        k = torch.randn(shape, device=device, dtype=torch.float16)
        yield k, torch.randn_like(k)


def main():
    lanes = Lanes()
    tower = Tower(LAYERS, HIDDEN, HEADS).to(lanes.device).half().eval()
    past = HostBackedCache.from_tensors(list(prompt_pairs(lanes.device)), lanes.device)
    x = torch.randn(1, 4, HIDDEN, device=lanes.device, dtype=torch.float16)
    runner = Runner(tower, past, lanes)
    x = runner.decode(x, steps=16)
    print(runner.steps, x.float().abs().mean().item())


if __name__ == "__main__":
    main()
