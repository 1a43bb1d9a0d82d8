from __future__ import annotations

from pathlib import Path

from pulsed.regular_file import FileWatcher


def test_a_change_counts_once_and_when_it_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "pulsed.yml"
    file.write_text("")
    watcher = FileWatcher([file])
    assert not watcher.has_changed()
    file.write_text("listen: ")
    assert not watcher.has_changed(), "the writer may not be done"
    file.write_text("listen: :9401")
    assert not watcher.has_changed(), "the writer was not done"
    assert watcher.has_changed()
    assert not watcher.has_changed()


def test_files_appear_and_vanish(tmp_path: Path) -> None:
    watcher = FileWatcher([tmp_path / "a", tmp_path / "b", "a\0b"])
    (tmp_path / "b").write_text("")
    assert [watcher.has_changed() for _ in range(3)] == [False, True, False]
    (tmp_path / "b").unlink()
    assert [watcher.has_changed() for _ in range(3)] == [False, True, False]


def test_other_files_start_unchanged(tmp_path: Path) -> None:
    watcher = FileWatcher([tmp_path / "a"])
    (tmp_path / "b").write_text("")
    watcher.watch([tmp_path / "b"])
    assert [watcher.has_changed() for _ in range(2)] == [False, False]
