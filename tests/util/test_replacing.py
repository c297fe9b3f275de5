"""Files are whole or not there, and nothing is left beside them."""

import os
import signal
import subprocess
import sys

import pytest

from manykernels._util import files
from manykernels._util.files import remove_leftovers, replacing

KILLED = """
import os, signal, sys
from manykernels._util import files
if sys.argv[2] == "named":
    files._open_unnamed = lambda folder: None
with files.replacing(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_on_the_way(path, how):
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), how], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("how", ["unnamed", "named"])
def test_the_next_to_write_finds_nothing_half_written(how, tmp_path):
    path = tmp_path / "m.mk"
    path.write_bytes(b"old")
    killed_on_the_way(path, how)
    assert path.read_bytes() == b"old"
    if how == "unnamed" and files._open_unnamed(str(tmp_path)) is not None:
        assert os.listdir(tmp_path) == ["m.mk"]
    with replacing(str(path)) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["m.mk"]


@pytest.mark.parametrize("how", ["unnamed", "named"])
def test_a_file_that_somebody_writes_is_left_alone(how, tmp_path, monkeypatch):
    if how == "named":
        monkeypatch.setattr(files, "_open_unnamed", lambda folder: None)
    path = str(tmp_path / "m.mk")
    with replacing(path) as first:
        first.write(b"first")
        with replacing(path) as second:
            second.write(b"second")
        remove_leftovers(path)
    assert (tmp_path / "m.mk").read_bytes() == b"first" and os.listdir(tmp_path) == ["m.mk"]


@pytest.mark.parametrize("how", ["unnamed", "named"])
def test_a_full_disk_is_told_with_the_path(how, tmp_path, monkeypatch):
    if how == "named":
        monkeypatch.setattr(files, "_open_unnamed", lambda folder: None)
    path = tmp_path / "m.mk"
    told = r"m\.mk cannot be written \(No space left on device\); make room"
    with pytest.raises(OSError, match=told), replacing(str(path)):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())
