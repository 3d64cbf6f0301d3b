import torch


def device_chunks(pieces, device="cuda"):
    """Yield each CPU piece as a device tensor, uploading one piece ahead."""
    shape = pieces[0].shape
    lane = torch.cuda.Stream(device=device)
    host = [torch.empty(shape, pin_memory=True) for _ in range(2)]
    bufs = [torch.empty(shape, device=device) for _ in range(2)]
    landed = [torch.cuda.Event() for _ in range(2)]

    def start(i):
        s = i % 2
        landed[s].synchronize()
        host[s].copy_(pieces[i])
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            bufs[s].copy_(host[s], non_blocking=True)
            landed[s].record()

    start(0)
    for i in range(len(pieces)):
        if i + 1 < len(pieces):
            start(i + 1)
        torch.cuda.current_stream().wait_event(landed[i % 2])
        yield bufs[i % 2]
