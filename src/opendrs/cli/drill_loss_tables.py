"""What follows from the loss of hosts, in tables and as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.figures import UNKNOWN, amount, arrow, counted, seconds
from opendrs.cli.screen import Table, add_row, table, visible
from opendrs.model import first_few
from opendrs.sim.drill.losses import Casualty, Filled, Loss

FEW = 20  # guests that are shown without being asked for
MOST_NAMES = 10  # in a note on guests that are lost


def print_loss(screen: Console, loss: Loss, *, everyone: bool) -> None:
    """Print what follows from a loss; list all its guests for *everyone*."""
    casualties = sorted(loss.casualties, key=_worst_first)
    if casualties:
        screen.print(_casualties(casualties if everyone else casualties[:FEW]))
        screen.print()
    if not everyone and len(casualties) > FEW:
        screen.print(f"And {len(casualties) - FEW} more; --guests lists them all.")
    if loss.filled:
        screen.print(_filled(loss.filled))
        screen.print()
    for remark in _remarks(loss):
        screen.print(visible(f"Note: {remark}."))
    who = ", ".join(loss.nodes)
    screen.print(visible(f"{_verdict(loss, who)}"), style=_style(loss))


def _worst_first(casualty: Casualty) -> tuple[bool, bool, int, str]:
    gone = casualty.target is None
    return (not gone, casualty.managed, -(casualty.down or 0), casualty.guest.id)


def _casualties(casualties: Sequence[Casualty]) -> Table:
    heads = ("guest", "from", "restarts on", "downtime", "memory")
    made = table(*heads, right=["memory"])
    for one in casualties:
        style = "red" if one.target is None else ""
        add_row(
            made,
            one.guest.id,
            one.source,
            Text(_fate(one), style=style),
            "lasting" if one.down is None else seconds(one.down),
            amount(one.guest.usage.memory),
        )
    return made


def _fate(casualty: Casualty) -> str:
    if casualty.target is not None:
        return visible(casualty.target)
    if not casualty.managed:
        return "not HA-managed"
    return "cannot" if casualty.blocker else "no node"


def _filled(filled: Sequence[Filled]) -> Table:
    made = table("node", "memory free", "uncommitted", "", right=[])
    for one in filled:
        words = {True: "fits", False: "does not fit", None: "not known"}[one.fits]
        add_row(
            made,
            one.node.id,
            _change(one.before.used, one.after.used),
            _change(one.before.promised, one.after.promised),
            Text(words, style="" if one.fits else "red"),
        )
    return made


def _change(before: float | None, after: float | None) -> str:
    return f"{_signed(before)} {arrow()} {_signed(after)}"


def _signed(size: float | None) -> str:
    if size is None:
        return UNKNOWN
    return f"-{amount(-size)}" if size < 0 else amount(size)


def _remarks(loss: Loss) -> Iterator[str]:
    yield from loss.stage.remarks
    if not loss.quorate:
        yield "the nodes that are left are no majority, so nothing is recovered"
    elif loss.master:
        yield (
            f"{min(loss.nodes)} is the HA master in this drill: to elect a new one "
            "takes a minute longer"
        )
    yield from _bound([loss])
    for rule in loss.broken:
        yield f"a strict rule is broken then: {rule}"
    if loss.moved_before:
        yield _moved_before(loss)
    if loss.displaced:
        yield f"the HA manager then also moves {', '.join(loss.displaced)}"
    if loss.unprotected:
        yield (
            f"{_unprotected(len(loss.unprotected))} down; --all takes all to be managed"
        )


def _bound(losses: Iterable[Loss]) -> Iterator[str]:
    """Yield which guests cannot be restarted elsewhere, in one sentence a reason."""
    alike: dict[str, list[str]] = {}
    for loss in losses:
        for one in loss.bound:
            alike.setdefault(str(one.blocker), []).append(one.guest.id)
    for reason, guests in alike.items():
        names = first_few(sorted(guests), MOST_NAMES)
        yield f"{names} cannot be restarted on another node: {reason}"


def _moved_before(loss: Loss) -> str:
    names = first_few(loss.moved_before)
    return f"the HA manager had moved {names} before the loss, so that rules hold"


def _unprotected(count: int) -> str:
    if count == 1:
        return "1 running guest is not HA-managed and stays"
    return f"{count} running guests are not HA-managed and stay"


def _verdict(loss: Loss, who: str) -> str:
    if loss.survived:
        return f"{_survivor([loss])} the loss of {who}."
    return f"The cluster does not survive the loss of {who}: {_why(loss)}."


def _survivor(losses: Sequence[Loss]) -> str:
    """Return who survives: what nobody brings back does not."""
    managed = " HA-managed" if any(loss.unprotected for loss in losses) else ""
    if any(loss.bound for loss in losses):
        return f"All{managed} guests that can be restarted on another node survive"
    return f"All{managed} guests survive" if managed else "The cluster survives"


def _why(loss: Loss) -> str:
    if not loss.stage.names.services:
        return "no guest is HA-managed"
    reasons = []
    if loss.stranded:
        reasons.append(f"no node for {counted(len(loss.stranded), 'guest')}")
    for one in loss.filled:
        if one.fits is False:
            reasons.append(f"{one.node.id} lacks {amount(one.missing)} of memory")
        elif one.fits is None:
            reasons.append(f"the memory of {one.node.id} is not known")
    reasons += [f"{rule.rule} is broken" for rule in loss.broken]
    return "; ".join(reasons)


def _style(loss: Loss) -> str:
    return "green" if loss.survived else "red"


def print_each(screen: Console, losses: Sequence[Loss]) -> None:
    """Print what follows from each loss, a line each, and whether all are survived."""
    made = table(
        "node lost",
        "guests",
        "restarted",
        "cannot restart",
        "unmanaged",
        "max downtime",
        "",
        right=["guests", "restarted", "cannot restart", "unmanaged"],
    )
    for loss in losses:
        downs = [one.down for one in loss.recovered if one.down is not None]
        add_row(
            made,
            loss.nodes[0],
            str(len(loss.casualties)),
            str(len(loss.recovered)),
            str(len(loss.bound)),
            str(len(loss.unprotected)),
            seconds(max(downs)) if downs else "-",
            Text("survived" if loss.survived else _why(loss), style=_style(loss)),
        )
    screen.print(made)
    screen.print()
    for remark in losses[0].stage.remarks if losses else ():
        screen.print(visible(f"Note: {remark}."))
    for sentence in _bound(losses):
        screen.print(visible(f"Note: {sentence}."))
    if losses and losses[0].moved_before:
        screen.print(visible(f"Note: {_moved_before(losses[0])}."))
    unprotected = sum(len(loss.unprotected) for loss in losses)
    if unprotected:
        words = f"{_unprotected(unprotected)} down; --all takes all to be managed"
        screen.print(f"Note: {words}.")
    fatal = [loss.nodes[0] for loss in losses if not loss.survived]
    if fatal:
        words = f"The cluster does not survive the loss of {first_few(fatal)}."
    elif losses:
        words = f"{_survivor(losses)} the loss of any one node."
    else:
        words = "No node is online."
    screen.print(visible(words), style="red" if fatal or not losses else "green")


def loss_document(loss: Loss) -> dict[str, object]:
    """Return *loss* as plain values."""
    return {
        "nodes": list(loss.nodes),
        "survived": loss.survived,
        "quorate": loss.quorate,
        "guests": [_casualty_document(one) for one in loss.casualties],
        "cannot_restart": [one.guest.id for one in loss.bound],
        "targets": [_filled_document(one) for one in loss.filled],
        "broken_rules": [str(rule) for rule in loss.broken],
        "moved_as_well": list(loss.displaced),
        "moved_before": list(loss.moved_before),
        "remarks": list(_remarks(loss)),
    }


def _casualty_document(one: Casualty) -> dict[str, object]:
    return {
        "guest": one.guest.id,
        "source": one.source,
        "ha_managed": one.managed,
        "target": one.target,
        "down": one.down,
        "restart_blocker": one.blocker,
    }


def _filled_document(one: Filled) -> dict[str, object]:
    return {
        "node": one.node.id,
        "fits": one.fits,
        "memory_left": one.after.used,
        "memory_promisable": one.after.promised,
    }
