import torch
import torch.nn.functional as F


class TwoTowerModel(torch.nn.Module):
    def __init__(self, image_encoder, text_encoder, temperature=0.07):
        super().__init__()
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.logit_scale = torch.nn.Parameter(torch.tensor(1.0 / temperature).log())

    def forward(self, images, tokens, text_stream):
        main_stream = torch.cuda.current_stream()
        text_stream.wait_stream(main_stream)
        with torch.cuda.stream(text_stream):
            text_features = F.normalize(self.text_encoder(tokens), dim=-1)
        image_features = F.normalize(self.image_encoder(images), dim=-1)
        main_stream.wait_stream(text_stream)
        text_features.record_stream(main_stream)
        tokens.record_stream(text_stream)
        return self.logit_scale.exp() * image_features @ text_features.t()


class SideStreamTrainer:
    """Runs whole training steps on an own stream; the towers fork from it."""

    def __init__(self, model: TwoTowerModel, optimizer, max_norm=1.0):
        self.model = model
        self.optimizer = optimizer
        self.max_norm = max_norm
        self.step_stream = torch.cuda.Stream()
        self.text_stream = torch.cuda.Stream()
        self.running_loss = torch.zeros((), device="cuda")
        self.step_stream.wait_stream(torch.cuda.current_stream())

    def train_step(self, images, tokens):
        self.step_stream.wait_stream(torch.cuda.current_stream())
        images.record_stream(self.step_stream)
        tokens.record_stream(self.step_stream)
        with torch.cuda.stream(self.step_stream):
            self.optimizer.zero_grad(set_to_none=True)
            logits = self.model(images, tokens, self.text_stream)
            labels = torch.arange(logits.shape[0], device=logits.device)
            loss = 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
            self.optimizer.step()
            self.running_loss += loss.detach()

    def loss_value(self, steps):
        with torch.cuda.stream(self.step_stream):
            value = (self.running_loss / steps).item()
            self.running_loss.zero_()
        return value


def train(trainer, loader, log_every=50):
    for i, (images, tokens) in enumerate(loader, 1):
        images = images.cuda(non_blocking=True)
        tokens = tokens.cuda(non_blocking=True)
        trainer.train_step(images, tokens)
        if i % log_every == 0:
            print(f"step {i}: loss {trainer.loss_value(log_every):.4f}")
    torch.cuda.current_stream().wait_stream(trainer.step_stream)
