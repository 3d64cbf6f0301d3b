from cuda import cudart

from sa import Pool, call
from worker import Worker


def main(size=32 << 20, rounds=20):
    call(cudart.cudaSetDevice, 0)
    pool = Pool()
    workers = [Worker(pool, size) for _ in range(3)]
    for r in range(rounds):
        for i, w in enumerate(workers):
            w.build(r + 1, 100 + i)
    for w in workers:
        band = w.read()
        print(band[0], band[-1])
    pool.queue.join()


if __name__ == "__main__":
    main()
