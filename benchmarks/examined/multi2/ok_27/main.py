import torch
import torch.nn as nn
import torch.nn.functional as F

from adam import HostAdam
from postman import Postman
from rows import TwinRows
from train import DelayedLoop


def main(width=1024, turns=100):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(6)]).cuda()
    rows = TwinRows(model.parameters())
    adam = HostAdam(rows.flat_params())
    loop = DelayedLoop(model, F.mse_loss, rows, Postman(adam))
    x = torch.randn(512, width, device="cuda")
    losses = [loop.turn(t, x, x.flip(1)) for t in range(turns)]
    loop.finish()
    print(torch.stack(losses)[-5:].tolist())


if __name__ == "__main__":
    main()
