"""What workers write into folders: whole members, within a limit, readable after any death."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from celery_fair.errors import SettingsError
from celery_fair.record.folder import ENDING, FILES, Folder, check_folder, read_batches


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*" + ENDING))


def test_batches_are_read_as_they_were_written(tmp_path):
    folder = Folder(tmp_path, "w1@shop", 1_000_000)
    for number in range(3):
        folder.write(b"batch %d\n" % number)
    (path,) = files(tmp_path)
    assert list(read_batches(path)) == [b"batch 0\n", b"batch 1\n", b"batch 2\n"]


def test_what_a_kill_has_cut_ends_a_file_and_spoils_nothing_before_it(tmp_path):
    folder = Folder(tmp_path, "w1@shop", 1_000_000)
    folder.write(b"one")
    (path,) = files(tmp_path)
    whole = path.stat().st_size
    folder.write(b"two" * 100)
    cut = path.read_bytes()
    for length in range(whole, len(cut)):
        path.write_bytes(cut[:length])
        assert list(read_batches(path)) == [b"one"]


def test_a_full_disk_leaves_no_half_member_in_front_of_the_next(tmp_path, monkeypatch):
    folder = Folder(tmp_path, "w1@shop", 1_000_000)
    folder.write(b"one")
    opened = Path.open

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, member):
            self.file.write(member[:5])
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, *args: Full(opened(path, *args)))
        with pytest.raises(OSError, match="No space"):
            folder.write(b"two")
    folder.write(b"three")
    assert [one for path in files(tmp_path) for one in read_batches(path)] == [b"one", b"three"]


def test_a_worker_keeps_its_own_files_within_the_limit_and_no_others(tmp_path):
    limit = 80_000
    other = tmp_path / f"w1@shop.de.{0:016d}-7{ENDING}"
    other.write_bytes(b"x" * limit)
    folder = Folder(tmp_path, "w1@shop", limit)
    source = Random(1)
    for _ in range(100):
        folder.write(source.randbytes(2_000))
    own = [path for path in files(tmp_path) if path != other]
    assert other.exists()
    assert 1 < len(own) <= FILES + 1
    assert sum(path.stat().st_size for path in own) <= limit
    assert len(list(read_batches(own[-1]))) > 0


def test_a_folder_that_cannot_be_written_is_refused_by_name(tmp_path):
    with pytest.raises(SettingsError, match=str(tmp_path / "none")):
        check_folder(tmp_path / "none")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SettingsError, match="record: expected a folder"):
        check_folder(file)
    check_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
