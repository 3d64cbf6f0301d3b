import argparse
import io
import threading

import torch
import torch.nn as nn


class ConvTagger(nn.Module):
    def __init__(self, channels=96, tags=24):
        super().__init__()
        self.inp = nn.Conv1d(40, channels, 5, padding=2)
        self.mid = nn.ModuleList(nn.Conv1d(channels, channels, 3, padding=1) for _ in range(4))
        self.out = nn.Conv1d(channels, tags, 1)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        for layer in self.mid:
            h = h + torch.relu(layer(h))
        return self.out(h).amax(dim=2)


class CheckpointPuller(threading.Thread):
    def __init__(self, module, blob):
        super().__init__()
        self.module = module
        self.blob = blob
        self.stream = torch.cuda.Stream()
        self.error = None

    def run(self):
        try:
            state = torch.load(io.BytesIO(self.blob), map_location="cpu")
            with torch.cuda.stream(self.stream), torch.no_grad():
                held = []
                for name, p in self.module.named_parameters():
                    src = state[name].pin_memory()
                    held.append(src)
                    p.copy_(src, non_blocking=True)
            self.stream.synchronize()
        except Exception as exc:
            self.error = exc


class Service:
    def __init__(self):
        self.model = ConvTagger().cuda().eval()
        self.stream = torch.cuda.Stream()
        self.puller = None
        torch.cuda.synchronize()

    def begin_refresh(self, blob):
        self.stream.synchronize()
        self.puller = CheckpointPuller(self.model, blob)
        self.puller.start()

    def end_refresh(self):
        if self.puller is None:
            return
        self.puller.join()
        if self.puller.error is not None:
            raise self.puller.error
        self.puller = None

    @torch.no_grad()
    def tag(self, clips):
        self.end_refresh()
        with torch.cuda.stream(self.stream):
            return self.model(clips.to("cuda")).sigmoid()

    def drain(self, outputs):
        self.stream.synchronize()
        return torch.stack(outputs).mean(0).cpu()


def make_blob(seed):
    torch.manual_seed(seed)
    buf = io.BytesIO()
    torch.save(ConvTagger().state_dict(), buf)
    return buf.getvalue()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=12)
    ap.add_argument("--clips", type=int, default=20)
    args = ap.parse_args()
    service = Service()
    for r in range(args.rounds):
        service.begin_refresh(make_blob(r))
        inputs = [torch.randn(16, 40, 500) for _ in range(args.clips)]
        outputs = [service.tag(c) for c in inputs]
        print(r, service.drain(outputs).max().item())
        del outputs


if __name__ == "__main__":
    main()
