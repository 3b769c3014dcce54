"""Puts the binary into the wheel, as the command `resume-suite`, and the adapters where it finds them."""

import os
import pathlib
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface[Any]):
    """`SUITE_BINARY` is the binary, `SUITE_ADAPTERS` the folder of adapters, `SUITE_WHEEL_PLATFORM` the platform, such as `manylinux_2_34_x86_64`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the files, and names the platform."""
        build_data["shared_scripts"] = {os.environ["SUITE_BINARY"]: "resume-suite"}
        adapters = pathlib.Path(os.environ["SUITE_ADAPTERS"])
        files = sorted(file for file in adapters.rglob("*") if file.is_file())
        build_data["shared_data"] = {str(file): f"share/resume-suite/adapters/{file.relative_to(adapters)}" for file in files}
        build_data["tag"] = f"py3-none-{os.environ['SUITE_WHEEL_PLATFORM']}"
        build_data["pure_python"] = False
