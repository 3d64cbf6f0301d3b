import copy
import math

import torch


class ModelEMA:
    """Keeps a moving average of everything in the model state_dict."""

    def __init__(self, model, decay=0.9999, tau=2000):
        self.ema = copy.deepcopy(model).eval()
        self.updates = 0
        self.decay = lambda x: decay * (1 - math.exp(-x / tau))
        for p in self.ema.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d = self.decay(self.updates)
        msd = model.state_dict()
        for k, v in self.ema.state_dict().items():
            if v.dtype.is_floating_point:
                v.mul_(d).add_(msd[k].detach(), alpha=1 - d)


class Trainer:
    def __init__(self, model, loader, lr, accumulate, device):
        self.device = device
        self.model = model.to(device, memory_format=torch.channels_last)
        self.loader = loader
        self.accumulate = accumulate
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.937, nesterov=True)
        self.scaler = torch.cuda.amp.GradScaler()
        self.ema = ModelEMA(model)
        self.ema_stream = torch.cuda.Stream(device)
        self.ema_stream.wait_stream(torch.cuda.current_stream(device))

    def _optimizer_step(self):
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=10.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.ema_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.ema_stream):
            self.ema.update(self.model)

    def train_epoch(self, compute_loss):
        self.model.train()
        mloss = torch.zeros(3, device=self.device)
        for i, (imgs, targets) in enumerate(self.loader):
            imgs = imgs.to(self.device, non_blocking=True).float() / 255
            with torch.cuda.amp.autocast():
                pred = self.model(imgs)
                loss, items = compute_loss(pred, targets.to(self.device))
            self.scaler.scale(loss).backward()
            if i % self.accumulate == self.accumulate - 1:
                self._optimizer_step()
            mloss.mul_(i).add_(items).div_(i + 1)
        torch.cuda.current_stream(self.device).wait_stream(self.ema_stream)
        return mloss

    def fit(self, epochs, compute_loss, validate, path):
        best = 0.0
        for epoch in range(epochs):
            mloss = self.train_epoch(compute_loss)
            fitness = validate(self.ema.ema)
            if fitness > best:
                best = fitness
                torch.save(self.ema.ema.state_dict(), path)
            print(epoch, mloss.tolist(), fitness)
