import rt
from album import Album
from camera import Camera
from session import photo_session


def main(size=64 << 20, rounds=24):
    rt.call("cudaSetDevice", 0)
    camera = Camera(size)
    album = Album(camera, pages=6)
    rt.call("cudaDeviceSynchronize")
    photo_session(camera, album).run(rounds)
    for low, high in album.show():
        print(low, high)


if __name__ == "__main__":
    main()
