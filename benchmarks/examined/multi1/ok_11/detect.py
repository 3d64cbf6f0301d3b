import torch

from detector import Detector


@torch.no_grad()
def top(box, score, k=5):
    s, idx = score.flatten(1).topk(k, dim=1)
    b = box.flatten(2).gather(2, idx[:, None].expand(-1, 4, -1))
    return s.cpu(), b.permute(0, 2, 1).cpu()


def main(rounds=10):
    torch.manual_seed(1)
    net = Detector().cuda().eval()
    print(net.describe())
    for r in range(rounds):
        img = torch.rand(4, 3, 256, 256, device="cuda")
        with torch.no_grad():
            box, score = net(img)
        s, b = top(box, score)
        print(r, s[0].tolist(), b[0, 0].tolist())


if __name__ == "__main__":
    main()
