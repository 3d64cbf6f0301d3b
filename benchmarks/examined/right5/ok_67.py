import torch


def frame_source(n, h=1080, w=1920):
    for i in range(n):
        yield torch.full((h, w, 3), i % 256, dtype=torch.uint8)


def device_frames(source, slots=3):
    """Uploads frames through fixed pinned/device slots; settles everything on close."""
    stream = torch.cuda.Stream()
    pinned, device, used = [], [], []
    try:
        for i, frame in enumerate(source):
            k = i % slots
            if k == len(pinned):
                pinned.append(torch.empty_like(frame).pin_memory())
                device.append(torch.empty_like(frame, device="cuda"))
                used.append(torch.cuda.current_stream().record_event())
            else:
                used[k].synchronize()
            pinned[k].copy_(frame)
            with torch.cuda.stream(stream):
                stream.wait_event(used[k])
                device[k].copy_(pinned[k], non_blocking=True)
            consumer = torch.cuda.current_stream()
            consumer.wait_stream(stream)
            yield device[k]
            used[k] = torch.cuda.current_stream().record_event()
    finally:
        torch.cuda.current_stream().synchronize()
        stream.synchronize()


def to_gray(frame: torch.Tensor) -> torch.Tensor:
    weights = torch.tensor([0.299, 0.587, 0.114], device=frame.device)
    return (frame.float() * weights).sum(-1)


@torch.inference_mode()
def main():
    motion, previous = [], None
    frames = device_frames(frame_source(300))
    try:
        for frame in frames:
            gray = to_gray(frame)
            if previous is not None:
                motion.append((gray - previous).abs().mean())
            previous = gray
            if len(motion) >= 120:
                break
    finally:
        frames.close()
    print(torch.stack(motion).sum().item())


if __name__ == "__main__":
    main()
