"""The image for arm64, from Debian's and PyPI's packages for it and the kernel by a cross compiler; and what it does
there, by an emulator: a job on the kernel, whose output is the sequential reference's, byte for byte. It takes minutes,
and a gigabyte."""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EMULATOR = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not EMULATOR.exists() or os.geteuid() != 0 or not shutil.which("debootstrap"),
        reason="nothing runs programs of arm64 here: it takes root, debootstrap, qemu-user-static, binfmt-support",
    ),
    pytest.mark.skipif(platform.machine() == "aarch64", reason="that is this machine's own processor"),
]


def test_the_image_of_arm64_runs_a_job_on_its_kernel(tmp_path: Path) -> None:
    image = tmp_path / "image.tar"
    name = "localhost/flamestream:arm64"
    subprocess.run(
        [ROOT / "e2e/image/build-image", image, name], env={**os.environ, "ARCH": "arm64"}, check=True
    )
    done = subprocess.run(
        ["python3", ROOT / "e2e/image/try_image.py", image], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["architecture"], found["processor"], found["kernel"]) == ("arm64", "aarch64", "kernel")
    assert (found["outcome"], found["records"], found["clean"]) == ("completed", 500, True)
