"""Routes and parameter checks of the Proxmox VE API, from its own description."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("OPENDRS_SHARED") or PROJECT.parent / "shared")
SCHEMA = SHARED / "data" / "pve-api" / "schema-extract.json"
NOT_DEFINED = (
    "property is not defined in schema and the schema does not allow additional "
    "properties"
)
CONFLICT = "duplicate parameter (already defined in URI) with conflicting values!"
_NETWORK = re.compile(r"[0-9.]+/\d+")
_NODE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?")
_TYPES = {
    "integer": re.compile(r"-?\d+"),
    "number": re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"),
    "boolean": re.compile(r"[01]"),
}
# What versions before 9 do not have.
_NEW_PATHS = ("/cluster/ha/rules", "/cluster/ha/status/disarm-ha")
_NEW_PARAMETERS = ("with-conntrack-state",)


def _disk_move(name: str) -> dict[str, Any]:
    """Return the description of a move of a disk, which is called *name*."""
    text, optional = {"type": "string"}, {"type": "string", "optional": 1}
    properties = {
        "node": {"type": "string", "format": "pve-node"},
        "vmid": {"type": "integer", "format": "pve-vmid"},
        name: text,
        "storage": optional,
        "delete": {"type": "boolean", "optional": 1},
        "digest": optional,
        "bwlimit": {"type": "integer", "minimum": "0", "optional": 1},
    }
    return {
        "proxyto": "node",
        "permissions": {"check": ["perm", "/vms/{vmid}", ["VM.Config.Disk"]]},
        "parameters": {"properties": properties},
    }


# Methods that the extract does not contain, from the documentation of the API, with
# the parameters that moves to another storage have.
_FURTHER = {
    "POST /nodes/{node}/qemu/{vmid}/move_disk": _disk_move("disk"),
    "POST /nodes/{node}/lxc/{vmid}/move_volume": _disk_move("volume"),
}


@dataclass(frozen=True)
class Route:
    """A method of the API."""

    method: str
    template: str
    description: Mapping[str, Any]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.template))

    def match(self, path: str) -> dict[str, str] | None:
        found = self._pattern.fullmatch(path)
        return None if found is None else found.groupdict()

    @property
    def properties(self) -> Mapping[str, Any]:
        found = self.description.get("parameters", {}).get("properties", {})
        return found if isinstance(found, dict) else {}


@cache
def routes(major: int) -> tuple[Route, ...]:
    """Return the routes of the version *major*, those without parameters first."""
    description = json.loads(SCHEMA.read_text()) | _FURTHER
    found = []
    for key, value in description.items():
        method, _, template = key.partition(" ")
        if major < 9 and template.startswith(_NEW_PATHS):
            continue
        if major < 9:
            for name in _NEW_PARAMETERS:
                value.get("parameters", {}).get("properties", {}).pop(name, None)
        found.append(Route(method, template, value))
    return tuple(sorted(found, key=lambda route: route.template.count("{")))


def find_route(
    method: str, path: str, major: int
) -> tuple[Route, dict[str, str]] | None:
    """Return the route of a request and the parameters in its path."""
    for route in routes(major):
        if route.method == method and (found := route.match(path)) is not None:
            return route, found
    return None


def parameter_errors(
    route: Route, in_path: Mapping[str, str], sent: Iterable[tuple[str, str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters of a request, and the error of each invalid one."""
    values, errors = dict(in_path), dict[str, str]()
    for name, value in sent:
        if in_path.get(name, value) != value:
            errors[name] = CONFLICT
        elif name in values and name not in in_path:
            errors[name] = "type check ('string') failed - got ARRAY"
        values.setdefault(name, value)
    for name in values:
        if name not in route.properties and name not in in_path:
            errors.setdefault(name, NOT_DEFINED)
    for name, form in route.properties.items():
        if name not in values:
            if not form.get("optional"):
                errors[name] = "property is missing and it is not optional"
        elif name not in errors and (error := _value_error(form, values[name], name)):
            errors[name] = error
    return values, errors


def _value_error(  # noqa: PLR0911 - as above
    form: Mapping[str, Any], value: str, name: str
) -> str | None:
    kind = form.get("type", "string")
    if kind in _TYPES and not _TYPES[kind].fullmatch(value):
        return f"type check ('{kind}') failed - got '{value}'"
    if isinstance(form.get("format"), dict):
        return _property_string_error(form["format"], value, name)
    if form.get("format") == "pve-node" and not _NODE.fullmatch(value):
        return "invalid format - value does not look like a valid node name\n"
    if form.get("format") == "CIDR" and not _NETWORK.fullmatch(value):
        return "invalid format - value does not look like a valid CIDR network\n"
    if form.get("format") == "pve-vmid" and not 100 <= int(value) <= 999_999_999:
        return "invalid format - value does not look like a valid VM ID\n"
    if "enum" in form and value not in form["enum"]:
        words = ", ".join(form["enum"])
        return f"value '{value}' does not have a value in the enumeration '{words}'"
    if "minimum" in form and float(value) < float(form["minimum"]):
        return f"value must have a minimum value of {form['minimum']}"
    return None


def _property_string_error(
    forms: Mapping[str, Any], value: str, name: str
) -> str | None:
    for item in filter(None, value.split(",")):
        key, _, part = item.partition("=")
        form = forms.get(key)
        error = NOT_DEFINED if form is None else _value_error(form, part, key)
        if error is not None:
            return f"invalid format - format error\n{name}.{key}: {error}\n"
    return None
