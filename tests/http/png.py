"""Just enough PNG to make test pictures: 8-bit RGB, no interlacing, an optional eXIf chunk."""
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(file):
    at = len(SIGNATURE)
    while at < len(file):
        length, kind = struct.unpack(">I4s", file[at:at + 8])
        yield kind, file[at + 8:at + 8 + length]
        at += 12 + length


def read(file):
    """Rows of (r, g, b) tuples."""
    header = next(content for kind, content in chunks(file) if kind == b"IHDR")
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", header)
    if (depth, colour, rest) != (8, 2, [0, 0, 0]):
        raise ValueError("not an 8-bit RGB picture")
    raw = zlib.decompress(b"".join(content for kind, content in chunks(file) if kind == b"IDAT"))
    rows, above, stride = [], bytes(3 * width), 3 * width + 1
    for y in range(height):
        line = bytearray(raw[y * stride + 1:(y + 1) * stride])
        unfilter(raw[y * stride], line, above)
        rows.append([tuple(line[i:i + 3]) for i in range(0, 3 * width, 3)])
        above = bytes(line)
    return rows


def unfilter(kind, line, above):
    for i, value in enumerate(line):
        left, up, corner = (line[i - 3], above[i], above[i - 3]) if i >= 3 else (0, above[i], 0)
        if kind == 4:
            guess = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
        else:
            guess = (0, left, up, (left + up) // 2)[kind]
        line[i] = (value + guess) & 255


def write(rows, orientation=None):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    raw = b"".join(b"\0" + bytes(v for pixel in row for v in pixel) for row in rows)
    exif = b"" if orientation is None else chunk(
        b"eXIf", b"MM\0*\0\0\0\x08\0\x01" + struct.pack(">HHIHH", 0x112, 3, 1, orientation, 0) + b"\0\0\0\0")
    return SIGNATURE + chunk(b"IHDR", header) + exif + chunk(b"IDAT", zlib.compress(raw, 1)) + chunk(b"IEND", b"")


def grey(width, height):
    """One grey picture of any size, quickly."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(b"\0" + b"\x80" * width) for _ in range(height)) + packer.flush()
    return (SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) + chunk(b"IDAT", packed) +
            chunk(b"IEND", b""))


def stored_as(rows, orientation):
    """The rows a camera would have stored so that `orientation` (EXIF 2.3, tag 0x112) turns them into `rows`."""
    flip, turn, swap = (lambda r: [row[::-1] for row in r]), (lambda r: r[::-1]), (lambda r: list(map(list, zip(*r))))
    steps = {1: [], 2: [flip], 3: [flip, turn], 4: [turn], 5: [swap], 6: [flip, swap], 7: [flip, turn, swap],
             8: [turn, swap]}[orientation]
    for step in steps:
        rows = step(rows)
    return rows
