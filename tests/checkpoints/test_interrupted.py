"""Whenever the writing of a file ends, by a kill, a power cut or an error, the last good one is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from asyncgraph._session.replace_file import make_folder, remove_leftovers, replace_file

from .disk import Disk, Killed

PATH = os.path.realpath("/disk/model")
OLD = {PATH: b"the old one", os.path.realpath("/disk/other"): b"somebody else's"}
PIECES = [b"the ", b"", b"new one, which is longer"]
NEW = OLD | {PATH: b"".join(PIECES)}


def write(disk: Disk) -> None:
    replace_file(PATH, map(memoryview, PIECES), disk)


def calls_of_a_writing() -> range:
    """Numbers the calls that a writing takes."""
    disk = Disk(OLD)
    write(disk)
    assert {"open", "write", "fsync", "close", "replace"} == set(disk.calls)
    return range(len(disk.calls))


def without_leftovers(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if ".asyncgraph-" not in name}


@pytest.mark.parametrize("calls", calls_of_a_writing())
def test_a_program_that_ends_after_any_call_leaves_the_old_file_or_the_new(calls: int) -> None:
    disk = Disk(OLD, ends_after=calls)
    with pytest.raises(Killed):
        write(disk)
    for found in disk.after_power_cut():
        assert without_leftovers(found) in (OLD, NEW)


def test_what_was_written_is_there_after_a_power_cut() -> None:
    disk = Disk(OLD)
    write(disk)
    for found in disk.after_power_cut():
        assert found == NEW


@pytest.mark.parametrize("call", calls_of_a_writing())
def test_a_call_that_fails_leaves_the_old_file_or_the_new_and_nothing_beside_it(call: int) -> None:
    disk = Disk(OLD, fails=call + 1)
    with pytest.raises(OSError, match="No space left"):
        write(disk)
    renamed = "replace" in disk.calls[:call]
    for found in disk.after_power_cut():
        assert without_leftovers(found) in ((OLD, NEW) if renamed else (OLD,))
    assert {name: file.data for name, file in disk.names.items()} == (NEW if renamed else OLD)


def test_what_a_killed_program_left_is_removed_once_nobody_can_be_writing_it(tmp_path: Path) -> None:
    dead, alive = (tmp_path / f".asyncgraph-0123456789abcde{last}.tmp" for last in "ef")
    another = tmp_path / ".asyncgraph-notes.tmp"
    for path in (dead, alive, another):
        path.touch()
    for path in (dead, another):
        os.utime(path, (0, 0))
    remove_leftovers(str(tmp_path))
    assert {*tmp_path.iterdir()} == {alive, another}
    remove_leftovers(str(tmp_path / "none"))


def test_a_link_is_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    replace_file(str(link), [memoryview(b"new")])
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"  # For any device: whoever may write to its folder would lose it.
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(OSError, match="no regular file"):
            replace_file(str(path), [memoryview(b"new")])
    assert pipe.is_fifo()
    assert [*tmp_path.iterdir()] == [pipe]


def test_folders_are_made_with_those_that_they_are_in(tmp_path: Path) -> None:
    make_folder(str(tmp_path / "a" / "b"))
    make_folder(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        make_folder(str(tmp_path / "file" / "b"))
