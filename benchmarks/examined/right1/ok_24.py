"""Chained generators: upload, transform, download, each stage one item ahead."""
import torch


def lookahead(items):
    """Keeps one item of the upstream generator in flight."""
    it = iter(items)
    try:
        held = next(it)
    except StopIteration:
        return
    for item in it:
        yield held
        held = item
    yield held


def upload(chunks, stream):
    for host in chunks:
        with torch.cuda.stream(stream):
            dev = host.pin_memory().to("cuda", non_blocking=True)
        yield dev, stream.record_event()


def transform(items, stream, window):
    for dev, uploaded in items:
        stream.wait_event(uploaded)
        with torch.cuda.stream(stream):
            spectrum = torch.stft(
                dev, n_fft=1024, hop_length=256, window=window, return_complex=True
            ).abs()
            out = torch.log1p(spectrum)
        dev.record_stream(stream)
        yield out, stream.record_event()


def download(items, stream):
    for out, computed in items:
        stream.wait_event(computed)
        with torch.cuda.stream(stream):
            host = torch.empty(out.shape, pin_memory=True)
            host.copy_(out, non_blocking=True)
        out.record_stream(stream)
        yield host, stream.record_event()


def finished(items):
    for host, event in items:
        event.synchronize()
        yield host


def spectrograms(chunks):
    h2d, compute, d2h = (torch.cuda.Stream() for _ in range(3))
    with torch.cuda.stream(compute):
        window = torch.hann_window(1024, device="cuda")
    stages = lookahead(upload(chunks, h2d))
    stages = lookahead(transform(stages, compute, window))
    stages = lookahead(download(stages, d2h))
    yield from finished(stages)


def main():
    chunks = (torch.randn(8, 16000 * 4) for _ in range(50))
    peak = max(s.max().item() for s in spectrograms(chunks))
    print(peak)


if __name__ == "__main__":
    main()
