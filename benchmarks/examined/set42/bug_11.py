"""Three-stage embedding server: tokenize, encode and post-process threads."""
import queue
import threading

import torch
import torch.nn as nn

STOP = object()


class Encoder(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(
            [nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
             for _ in range(layers)])

    def encode_pre(self, texts):
        ids = [[hash(w) % self.embed.num_embeddings for w in t.split()] for t in texts]
        longest = max(map(len, ids))
        return torch.tensor([i + [0] * (longest - len(i)) for i in ids])

    @torch.inference_mode()
    def encode_core(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h)
        return h.mean(1)

    @torch.inference_mode()
    def encode_post(self, pooled):
        return nn.functional.normalize(pooled, dim=-1).cpu().numpy()


class Stage(threading.Thread):
    def __init__(self, inbox, outbox):
        super().__init__(daemon=True)
        self.inbox = inbox
        self.outbox = outbox

    def run(self):
        while True:
            item = self.inbox.get()
            if item is STOP:
                self.outbox.put(STOP)
                return
            tag, payload = item
            self.outbox.put((tag, self.work(payload)))


class PreStage(Stage):
    def __init__(self, model, *queues):
        super().__init__(*queues)
        self.model = model

    def work(self, texts):
        return self.model.encode_pre(texts)


class CoreStage(Stage):
    def __init__(self, model, device, *queues):
        super().__init__(*queues)
        self.model = model
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def work(self, ids):
        with torch.cuda.stream(self.stream):
            return self.model.encode_core(ids.to(self.device))


class PostStage(Stage):
    def __init__(self, model, *queues):
        super().__init__(*queues)
        self.model = model

    def work(self, pooled):
        return self.model.encode_post(pooled)


class BatchHandler:
    def __init__(self, model, device):
        q = [queue.Queue(maxsize=4) for _ in range(4)]
        self.inbox, self.results = q[0], q[3]
        torch.cuda.synchronize(device)
        self.stages = [PreStage(model, q[0], q[1]), CoreStage(model, device, q[1], q[2]),
                       PostStage(model, q[2], q[3])]
        for s in self.stages:
            s.start()

    def embed(self, batches):
        def feed():
            for i, texts in enumerate(batches):
                self.inbox.put((i, texts))
            self.inbox.put(STOP)
        threading.Thread(target=feed, daemon=True).start()
        out = {}
        while (item := self.results.get()) is not STOP:
            out[item[0]] = item[1]
        return [out[i] for i in sorted(out)]


def main():
    model = Encoder(30000, 512, 6).to("cuda:0").eval()
    handler = BatchHandler(model, "cuda:0")
    vectors = handler.embed([[f"text number {i} of batch {b}" for i in range(64)]
                             for b in range(12)])
    print(len(vectors), vectors[0].shape, abs(vectors[-1]).sum())


if __name__ == "__main__":
    main()
