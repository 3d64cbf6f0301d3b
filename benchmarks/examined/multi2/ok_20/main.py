from vision import DeviceRing, FrameSource, StripCutter, check, rt


def main(frames=120, shape=(2160, 3840)):
    check(rt.cudaSetDevice(0))
    ring = DeviceRing(3, shape[0] * shape[1])
    source = FrameSource(ring, shape)
    sink = StripCutter(ring, shape, frames)
    for _ in range(frames):
        source.push()
        sink.pull()
    strip = sink.result()
    print(strip.shape, strip.mean())


if __name__ == "__main__":
    main()
