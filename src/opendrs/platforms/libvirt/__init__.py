"""libvirt."""
