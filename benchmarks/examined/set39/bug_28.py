"""Trainer process streams weight chunks to a colocated rollout process."""
import torch
import torch.multiprocessing as mp


def shapes(depth, width):
    out = {}
    for i in range(depth):
        out[f"layers.{i}.weight"] = (width, width)
        out[f"layers.{i}.bias"] = (width,)
    return out


def chunked(named, limit):
    chunk, used = [], 0
    for name, tensor in named:
        if chunk and used + tensor.numel() > limit:
            yield chunk
            chunk, used = [], 0
        chunk.append((name, tensor))
        used += tensor.numel()
    if chunk:
        yield chunk


def rollout_main(inbox, acks, depth, width):
    torch.cuda.set_device(0)
    weights = {k: torch.zeros(s, device="cuda") for k, s in shapes(depth, width).items()}
    while True:
        message = inbox.get()
        if message is None:
            break
        table, bucket = message
        for name, start, numel in table:
            dst = weights[name]
            dst.copy_(bucket[start:start + numel].view_as(dst))
        torch.cuda.synchronize()
        acks.put(len(table))
        del bucket, message
    total = sum(float(w.sum()) for w in weights.values())
    acks.put(total)


class WeightPublisher:
    def __init__(self, inbox, acks, limit):
        self.inbox, self.acks = inbox, acks
        self.limit = limit
        self.bucket = torch.empty(limit, device="cuda")

    def publish(self, named):
        sent = 0
        for chunk in chunked(named, self.limit):
            table, start = [], 0
            for name, tensor in chunk:
                n = tensor.numel()
                self.bucket[start:start + n].copy_(tensor.reshape(-1))
                table.append((name, start, n))
                start += n
            torch.cuda.synchronize()
            self.inbox.put((table, self.bucket))
            sent += 1
        return sum(self.acks.get() for _ in range(sent))


def main(depth=16, width=2048):
    mp.set_start_method("spawn", force=True)
    inbox, acks = mp.Queue(), mp.Queue()
    peer = mp.Process(target=rollout_main, args=(inbox, acks, depth, width))
    peer.start()

    torch.cuda.set_device(0)
    named = [(k, torch.full(s, float(i), device="cuda"))
             for i, (k, s) in enumerate(shapes(depth, width).items())]
    publisher = WeightPublisher(inbox, acks, limit=2 * width * width)
    loaded = publisher.publish(named)
    inbox.put(None)
    got = acks.get()
    peer.join()
    want = sum(float(t.sum()) for _, t in named)
    print("tensors", loaded, "sum", got, want)


if __name__ == "__main__":
    main()
