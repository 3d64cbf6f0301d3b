from cuda import cudart

from belt import Belt
from device import run
from reader import Reader
from writer import Writer


def main(count=40, size=16 << 20, slots=3):
    run(cudart.cudaSetDevice, 0)
    belt = Belt(slots, size)
    writer = Writer(count, size)
    reader = Reader(belt, range(1, count + 1), size)
    reader.start()
    writer.consume(belt)
    reader.join()
    for row in writer.result()[::8]:
        print(int(row.min()), int(row.max()))


if __name__ == "__main__":
    main()
