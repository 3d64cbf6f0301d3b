"""Feature extraction in a worker process, training in the parent."""
import torch
import torch.multiprocessing as mp


def extractor(outbox, acks, rounds, device):
    torch.cuda.set_device(device)
    lane = torch.cuda.Stream()
    weight = torch.randn(2048, 512, device="cuda")
    lane.wait_stream(torch.cuda.current_stream())
    for i in range(rounds):
        with torch.cuda.stream(lane):
            raw = torch.randn(256, 2048, device="cuda")
            features = torch.tanh(raw @ weight)
        lane.synchronize()
        outbox.put((i, features))
        acks.get()
        del features
    outbox.put(None)


class RemoteFeatures:
    def __init__(self, rounds, device=0):
        ctx = mp.get_context("spawn")
        self.inbox = ctx.Queue()
        self.acks = ctx.Queue()
        self.proc = ctx.Process(target=extractor, args=(self.inbox, self.acks, rounds, device))
        self.proc.start()

    def __iter__(self):
        while (item := self.inbox.get()) is not None:
            index, remote = item
            local = remote.clone()
            torch.cuda.current_stream().synchronize()
            del remote, item
            self.acks.put(index)
            yield index, local
        self.proc.join()


def main():
    head = torch.nn.Linear(512, 8).cuda()
    opt = torch.optim.SGD(head.parameters(), 0.01)
    for index, feats in RemoteFeatures(200):
        loss = head(feats).logsumexp(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if index % 50 == 0:
            print(index, loss.item())


if __name__ == "__main__":
    main()
