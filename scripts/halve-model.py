#!/usr/bin/env python3
"""Writes the weights of the local embedding model with 16 bits instead of 32: half the size, for the container image.

usage: halve-model.py SOURCE TARGET, both files in the safetensors format. Needs nothing but Python.
Tensors of other types are copied as they are. A weight that 16 bits can't hold is an error.
"""

import json
import math
import struct
import sys


def halve(source: str, target: str) -> None:
    with open(source, "rb") as file:
        data = file.read()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    body = memoryview(data)[8 + length :]
    entries, parts, end = {}, [], 0
    for name, entry in header.items():
        if name == "__metadata__":
            entries[name] = entry
            continue
        begin, stop = entry["data_offsets"]
        part, dtype = bytes(body[begin:stop]), entry["dtype"]
        if dtype == "F32":
            count = len(part) // 4
            numbers = struct.unpack(f"<{count}f", part)
            # A value beyond 65,504 raises OverflowError.
            part, dtype = struct.pack(f"<{count}e", *numbers), "F16"
            if not all(map(math.isfinite, numbers)):
                sys.exit(f"error: {name} of {source} has numbers that are not finite")
        entries[name] = {"dtype": dtype, "shape": entry["shape"], "data_offsets": [end, end + len(part)]}
        parts.append(part)
        end += len(part)
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        file.writelines(parts)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    halve(sys.argv[1], sys.argv[2])
