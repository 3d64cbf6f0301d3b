import torch


class TokenLoader:
    """Reads uint16 shards and serves (input, target) pairs from one pinned buffer."""

    def __init__(self, tokens, batch, seq_len):
        self.tokens = tokens
        self.batch, self.seq_len = batch, seq_len
        self.pos = 0
        self.buf = torch.empty(batch * seq_len + 1, dtype=torch.int64, pin_memory=True)

    def next_batch(self):
        n = self.batch * self.seq_len
        if self.pos + n + 1 > self.tokens.numel():
            self.pos = 0
        self.buf.copy_(self.tokens[self.pos : self.pos + n + 1])
        self.pos += n
        return self.buf


class GPT2Trainer:
    """Fixed device input buffers; uploads run on parallel_stream while main_stream computes."""

    def __init__(self, model, lr, batch, seq_len, device="cuda"):
        self.model = model.to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.inputs = torch.empty((batch, seq_len), dtype=torch.int64, device=device)
        self.targets = torch.empty((batch, seq_len), dtype=torch.int64, device=device)
        self.main_stream = torch.cuda.Stream()
        self.parallel_stream = torch.cuda.Stream()
        self.upload_done = torch.cuda.Event()
        self.loss_event = torch.cuda.Event()
        self.loss_cpu = torch.zeros((), pin_memory=True)
        torch.cuda.synchronize()

    def upload(self, buf):
        n = self.inputs.numel()
        with torch.cuda.stream(self.parallel_stream):
            self.inputs.view(-1).copy_(buf[:n], non_blocking=True)
            self.targets.view(-1).copy_(buf[1 : n + 1], non_blocking=True)
            self.upload_done.record(self.parallel_stream)

    def forward(self):
        self.main_stream.wait_event(self.upload_done)
        logits = self.model(self.inputs)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.targets.flatten())

    def backward(self, loss):
        self.opt.zero_grad(set_to_none=True)
        loss.backward()

    def read_loss(self, loss):
        self.loss_cpu.copy_(loss.detach(), non_blocking=True)
        self.loss_event.record(self.main_stream)

    def update(self):
        self.opt.step()

    def mean_loss(self):
        self.loss_event.synchronize()
        return self.loss_cpu.item()


def train(model, tokens, steps, batch, seq_len, lr):
    loader = TokenLoader(tokens, batch, seq_len)
    trainer = GPT2Trainer(model, lr, batch, seq_len)
    losses = []
    trainer.upload(loader.next_batch())
    with torch.cuda.stream(trainer.main_stream):
        for step in range(steps):
            loss = trainer.forward()
            trainer.read_loss(loss)
            trainer.backward(loss)
            trainer.upload_done.synchronize()
            if step + 1 < steps:
                trainer.upload(loader.next_batch())
            trainer.update()
            losses.append(trainer.mean_loss())
    torch.cuda.synchronize()
    return losses
