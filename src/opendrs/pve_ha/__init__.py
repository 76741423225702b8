"""The HA manager of Proxmox VE as state machines without I/O or clock."""
