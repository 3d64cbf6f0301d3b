import torch


def on_device(reader, device="cuda"):
    """Chunks on the GPU. The loop body runs on the flow's stream, too."""
    lane = torch.cuda.Stream()
    outer = torch.cuda.current_stream()
    lane.wait_stream(outer)
    try:
        with torch.cuda.stream(lane):
            for block in reader:
                yield block.to(device, non_blocking=True)
    finally:
        outer.wait_stream(lane)


def numbered(chunks):
    base = 0
    for chunk in chunks:
        yield base, chunk
        base += chunk.shape[0]


def progress(chunks, total, every=4):
    for i, item in enumerate(chunks):
        yield item
        if (i + 1) % every == 0:
            print(f"{i + 1}/{total}")
