"""Tests of files that are replaced in one step."""

from skillsearch.files.atomic_files import write_atomically


def test_a_reader_of_the_old_file_keeps_its_bytes(tmp_path):
    """The new file takes the place of the old one, which nobody writes to."""
    path = tmp_path / "settings.json"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"
    assert [one.name for one in tmp_path.iterdir()] == ["settings.json"]
