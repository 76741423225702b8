import pytest

from opendrs.ha.fencing import FenceConfigError, fence_commands, read_fencing
from opendrs.model import NodeId

NODE = NodeId("node1")


def commands(text: str, attempt: int = 0) -> list[str]:
    devices = read_fencing(text, "fence.cfg").values()
    return [str(command) for command in fence_commands(devices, NODE, attempt)]


def complaints(text: str) -> tuple[str, ...]:
    with pytest.raises(FenceConfigError) as caught:
        read_fencing(text, "fence.cfg")
    return caught.value.complaints


def test_a_device_is_told_about_itself_and_the_node() -> None:
    text = "device d agent ip=10.0.0.1 x\nconnect d node=node1 plug=1 p=2\n"

    assert commands(text) == ["agent --ip=10.0.0.1 -x --plug=1 -p 2"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('"a b"', "'a b'"),
        ('"a\\"b"', "'a\"b'"),
        ('"it\'s"', "'it'\\''s'"),
        ('""', "''"),
        ("a/b:c@d", "a/b:c@d"),
    ],
)
def test_values_are_quoted_where_a_shell_needs_it(written: str, shown: str) -> None:
    text = f"device d agent name={written}\nconnect d node=node1 plug=1\n"

    assert commands(text) == [f"agent --name={shown} --plug=1"]


def test_parallel_devices_are_used_together() -> None:
    text = (
        "device d:2 second ip=2\ndevice d:1 first ip=1\n"
        "connect d:1 node=node1 plug=1\nconnect d:2 node=node1 plug=1\n"
    )

    assert commands(text) == ["first --ip=1 --plug=1", "second --ip=2 --plug=1"]


def test_devices_are_tried_in_the_order_of_their_declaration() -> None:
    text = (
        "device z first ip=1\ndevice a second ip=1\n"
        "connect a node=node1 plug=1\nconnect z node=node1 plug=1\n"
    )

    tries = [commands(text, attempt) for attempt in range(3)]

    assert tries == [["first --ip=1 --plug=1"], ["second --ip=1 --plug=1"], []]


def test_all_that_is_wrong_is_told_with_its_line() -> None:
    text = (
        "connect d node=node1 plug=1\n# comment\ndevice d agent ip=1\n"
        "device d agent ip=1\nconnect d:2 node=node1 plug=1\n"
        "connect d nowhere plug=1\nconnect d node=node1 plug=1\n"
        "connect d node=node1 plug=2\n"
    )

    assert complaints(text) == (
        "line 1: device 'd' must be declared before you can connect to it",
        "line 4: device 'd:1' already declared",
        "line 5: No parallel device 'd:2' found",
        "line 6: node=nodename needed to connect device 'd' to node",
        "line 8: node 'node1' already connected to device 'd:1'",
    )


def test_an_open_quote_is_told() -> None:
    assert complaints('device d agent name="open\n') == (
        "line 1: No closing quotation",
    )
