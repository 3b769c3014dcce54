"""Puts the binary into the wheel, as the command `rejoin`."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface[Any]):
    """`REJOIN_BINARY` is the binary, `REJOIN_WHEEL_PLATFORM` the platform that it runs on, such as `manylinux_2_34_x86_64`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the binary, and names the platform."""
        build_data["shared_scripts"] = {os.environ["REJOIN_BINARY"]: "rejoin"}
        build_data["tag"] = f"py3-none-{os.environ['REJOIN_WHEEL_PLATFORM']}"
        build_data["pure_python"] = False
