"""Puts the binary into the wheel, as the command `resume-suite`, and the adapters where it finds them."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface[Any]):
    """`SUITE_BINARY` is the binary, `SUITE_ADAPTERS` the folder of adapters, `SUITE_WHEEL_PLATFORM` the platform, such as `manylinux_2_34_x86_64`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the files, and names the platform."""
        build_data["shared_scripts"] = {os.environ["SUITE_BINARY"]: "resume-suite"}
        build_data["shared_data"] = {os.environ["SUITE_ADAPTERS"]: "share/resume-suite/adapters"}
        build_data["tag"] = f"py3-none-{os.environ['SUITE_WHEEL_PLATFORM']}"
        build_data["pure_python"] = False
