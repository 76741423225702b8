"""The HA manager of Proxmox VE as machines without input, output or clock."""
