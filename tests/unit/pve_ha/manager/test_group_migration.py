import pytest

from opendrs.pve_ha.manager.group_migration import needs_upgrade


@pytest.mark.parametrize(
    "version", ["9.0.0~16", "9.0.0~17", "9.0.0", "9.0.1~2", "9.1.2", "9.0-1", "10.0.0"]
)
def test_new_version_needs_no_upgrade(version: str) -> None:
    assert not needs_upgrade(version)


@pytest.mark.parametrize("version", ["8.4.1", "8.4-1", "9.0.0~15", "9.0.0~2", "junk"])
def test_old_version_needs_upgrade(version: str) -> None:
    assert needs_upgrade(version)
