"""Auxiliary losses on a helper stream, through a decorator."""
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F


def concurrent(method):
    @functools.wraps(method)
    def wrapper(self, *args):
        outer = torch.cuda.current_stream()
        self.helper.wait_stream(outer)
        with torch.cuda.stream(self.helper):
            value = method(self, *args)
        self.joins.append((outer, self.helper.record_event()))
        return value
    return wrapper


class SpeechModel(nn.Module):
    def __init__(self, mel=80, dim=512, vocab=64):
        super().__init__()
        self.encoder = nn.GRU(mel, dim, num_layers=2, batch_first=True)
        self.ctc_head = nn.Linear(dim, vocab)
        self.recon_head = nn.Linear(dim, mel)
        self.helper = torch.cuda.Stream()
        self.joins = []

    @concurrent
    def reconstruction(self, hidden, mels):
        return F.l1_loss(self.recon_head(hidden), mels)

    @concurrent
    def smoothness(self, hidden):
        return (hidden[:, 1:] - hidden[:, :-1]).square().mean()

    def ctc(self, hidden, targets):
        logp = self.ctc_head(hidden).log_softmax(-1).transpose(0, 1)
        lengths = torch.full((hidden.size(0),), hidden.size(1), dtype=torch.long)
        target_lengths = torch.full((hidden.size(0),), targets.size(1), dtype=torch.long)
        return F.ctc_loss(logp, targets, lengths, target_lengths)

    def forward(self, mels, targets):
        hidden, _ = self.encoder(mels)
        recon = self.reconstruction(hidden, mels)
        smooth = self.smoothness(hidden)
        ctc = self.ctc(hidden, targets)
        while self.joins:
            outer, event = self.joins.pop()
            outer.wait_event(event)
        recon.record_stream(torch.cuda.current_stream())
        smooth.record_stream(torch.cuda.current_stream())
        return ctc + 0.3 * recon + 0.01 * smooth


def main():
    model = SpeechModel().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(500):
        mels = torch.randn(16, 400, 80, device="cuda")
        targets = torch.randint(1, 64, (16, 60), device="cuda")
        loss = model(mels, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
