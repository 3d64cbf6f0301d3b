from collections import OrderedDict

import torch


class Embedding:
    def __init__(self, value, event):
        self.value, self.event = value, event


class EncoderCache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.entries: OrderedDict[int, Embedding] = OrderedDict()

    def put(self, key, value, event):
        self.entries[key] = Embedding(value, event)
        while len(self.entries) > self.capacity:
            self.entries.popitem(last=False)

    def __contains__(self, key):
        return key in self.entries

    def __getitem__(self, key):
        entry = self.entries[key]
        self.entries.move_to_end(key)
        reader = torch.cuda.current_stream()
        entry.event.wait(reader)
        entry.value.record_stream(reader)
        return entry.value


class VisionWorker:
    def __init__(self, encoder, cache):
        self.encoder, self.cache = encoder, cache
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def schedule(self, images):
        with torch.cuda.stream(self.stream):
            for key, image in images.items():
                if key in self.cache:
                    continue
                pixels = image.pin_memory().to("cuda", non_blocking=True)
                feats = self.encoder(pixels).flatten(2).mean(-1)
                self.cache.put(key, feats, self.stream.record_event())


class Decoder:
    def __init__(self, head, cache):
        self.head, self.cache = head, cache

    def step(self, keys, tokens):
        context = torch.cat([self.cache[k] for k in keys])
        return (self.head(context) + tokens).argmax(-1)


@torch.inference_mode()
def serve(requests):
    cache = EncoderCache(16)
    vision = VisionWorker(torch.nn.Conv2d(3, 64, 16, 16).cuda(), cache)
    decoder = Decoder(torch.nn.Linear(64, 256).cuda(), cache)
    answers = []
    for images in requests:
        vision.schedule(images)
        answers.append(decoder.step(list(images), torch.zeros(256, device="cuda")))
    return [a.tolist() for a in answers]


if __name__ == "__main__":
    pics = {i: torch.rand(1, 3, 224, 224) for i in range(40)}
    print(serve([{i: pics[i], i // 2: pics[i // 2]} for i in range(40)])[-1])
