"""An emulator of BigQuery's API, on the port that is given. Without the extension for maps, which it would fetch."""

import sys

from bqemulator.storage import engine


def find_engine():
    for value in vars(engine).values():
        if isinstance(value, type) and "_load_spatial" in vars(value):
            return value
    raise SystemExit("this version of bqemulator is another one than this script is for")


find_engine()._load_spatial = lambda self: None

from bqemulator.cli import main  # noqa: E402 (after the extension is off)

sys.argv = ["bqemulator", "start", "--rest-port", sys.argv[1], "--grpc-port", "0", "--log-level", "error"]
sys.exit(main())
