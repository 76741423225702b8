"""From devices to the text of fence.cfg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opendrs.ha.fencing.devices import Arguments, Device


def fencing_text(devices: Mapping[str, Device]) -> str:
    """Return *devices* as the text of a file, the first to be used first."""
    named = sorted(devices, key=lambda name: (devices[name].priority, name))
    return "\n".join(
        "".join(f"{line}\n" for line in _lines(name, devices[name])) for name in named
    )


def _lines(name: str, device: Device) -> Iterator[str]:
    for number, part in sorted(device.parts.items()):
        yield f"device {name}:{number} {part.agent} {_words(part.arguments)}"
    for number, part in sorted(device.parts.items()):
        for node, arguments in sorted(part.connections.items()):
            yield f"connect {name}:{number} node={node} {_words(arguments)}"


def _words(arguments: Arguments) -> str:
    return " ".join(_word(argument) for argument in arguments)


def _word(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
