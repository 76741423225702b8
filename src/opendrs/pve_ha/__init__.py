"""The HA manager of Proxmox VE, rebuilt as state machines without input, output or clock."""
