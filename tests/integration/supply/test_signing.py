"""What a maintainer signs, others can check with the public key alone, and nothing else passes: real cosign,
no network."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.installing import ROOT, by_go

pytestmark = pytest.mark.slow
"""Go takes ten minutes to make cosign, once a machine."""
PASSWORD = {"COSIGN_PASSWORD": "of the key"}


class Signing:
    """A key pair of its own, and what is signed with it."""

    def __init__(self, folder: Path, cosign: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "cosign").symlink_to(cosign)
        self._environment = {
            **os.environ,
            **PASSWORD,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
        }
        made = self.run("cosign", "generate-key-pair")
        assert made.returncode == 0, made.stderr
        self.thing = folder / "flamestream-0.1.0.tgz"
        self.thing.write_bytes(b"a chart")

    def run(self, *command: object) -> "subprocess.CompletedProcess[str]":
        words = [str(word) for word in command]
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def sign(self, thing: object, key: str = "cosign.key") -> "subprocess.CompletedProcess[str]":
        return self.run(ROOT / "scripts" / "sign", key, thing)

    def verified(self, key: str = "cosign.pub") -> bool:
        """As SECURITY.md has it."""
        bundle = f"{self.thing.name}.sigstore.json"
        return not self.run(
            "cosign",
            "verify-blob",
            "--key",
            key,
            "--insecure-ignore-tlog",
            "--bundle",
            bundle,
            self.thing.name,
        ).returncode


@pytest.fixture
def signing(tmp_path: Path) -> Signing:
    found = shutil.which("cosign")
    return Signing(
        tmp_path, Path(found) if found else by_go("cosign", "cosign", ", or put cosign on the PATH")
    )


def test_what_was_signed_is_verified_with_the_public_key_and_nothing_else_is(signing: Signing) -> None:
    done = signing.sign(signing.thing)
    assert done.returncode == 0, done.stderr
    assert signing.verified()
    signing.thing.write_bytes(b"another chart")
    assert not signing.verified(), "its bytes are others"


def test_the_key_of_somebody_else_does_not_verify(signing: Signing, tmp_path: Path) -> None:
    assert signing.sign(signing.thing).returncode == 0
    assert signing.run("cosign", "generate-key-pair", "--output-key-prefix", "other").returncode == 0
    assert not signing.verified("other.pub")


def test_a_signature_of_another_file_does_not_pass_for_this_one(signing: Signing) -> None:
    other = signing.folder / "other"
    other.write_bytes(b"other")
    assert signing.sign(other).returncode == 0
    (signing.folder / "other.sigstore.json").rename(signing.folder / f"{signing.thing.name}.sigstore.json")
    assert not signing.verified()


def test_nothing_is_told_to_a_transparency_log(signing: Signing) -> None:
    assert signing.sign(signing.thing).returncode == 0
    bundle = json.loads((signing.folder / f"{signing.thing.name}.sigstore.json").read_text())
    assert not bundle["verificationMaterial"].get("tlogEntries")


def test_an_image_by_tag_is_not_signed(signing: Signing) -> None:
    """A tag may be another image when the signature arrives."""
    done = signing.sign("registry.example/flamestream:0.1.0")
    assert done.returncode == 2 and "neither a file nor an image by digest" in done.stderr
