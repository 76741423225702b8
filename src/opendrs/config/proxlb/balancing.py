"""Translation of the section `balancing` to the policy `optimize` and the limits.

ProxLB migrates guests from the most to the least loaded node until the difference of
their loads is small. The closest policy is `optimize`, because it balances CPU and
memory with weights of their own, and repairs rules first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opendrs.config.diagnostics import KeyPath
from opendrs.config.proxlb.connection import translate_ignored_guests
from opendrs.config.proxlb.schema import BalancingSection, Pool
from opendrs.config.proxlb.translation import Tables, Translation, present_settings

POLICY = "optimize"
_OPTIMIZE = "policy.optimize"
_GATE = (
    "nothing is migrated for balance until a node exceeds it; the imbalance must "
    "exceed policy.optimize.threshold as well"
)


def translate_balancing(section: BalancingSection, result: Translation) -> None:
    """Add policy, limits and rules of pools to *result*."""
    _set_policy(section, result)
    parallel = section.parallel_jobs if section.parallel else 1
    result.limits["max_parallel_migrations"] = parallel
    for name, path in present_settings(section, "balancing"):
        _TRANSLATIONS[name](section, path, result)


def _set_policy(section: BalancingSection, result: Translation) -> None:
    cpu = section.method == "cpu"
    result.policy |= {
        "load_model": "static" if section.mode == "assigned" else "dynamic",
        "priorities": ["repair", "balance"],
        "threshold": section.balanciness / 100,
        "cpu_weight": 1.0 if cpu else 0.0,
        "memory_weight": 0.0 if cpu else 1.0,
    }
    if section.mode == "psi":
        result.policy["priorities"] = ["repair", "contention"]
        result.policy["budget"] = "1 migration"
    if "ct" in section.balance_types:
        result.policy["allow_cold_migration"] = True


def _enable(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    if section.enable:
        result.taken(path, "", "opendrs run and apply migrate, plan only shows")
    else:
        detail = "only opendrs run and apply migrate; use opendrs plan instead"
        result.differs(path, "", detail)


def _enforce(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    enforced = (
        section.enforce_affinity
        if path[-1] == "enforce_affinity"
        else section.enforce_pinning
    )
    target = f"{_OPTIMIZE}.priorities: repair"
    if enforced:
        result.taken(path, target)
        return
    detail = (
        "violated rules are repaired first, also in a balanced cluster; delete the "
        "goal repair to change that"
    )
    result.differs(path, target, detail)


def _parallel(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    limit = result.limits["max_parallel_migrations"]
    target = f"limits.max_parallel_migrations = {limit}"
    if path[-1] == "parallel_jobs" and not section.parallel:
        result.taken(path, target, "one at a time, because parallel is off")
    elif limit == 1:
        result.taken(path, target)
    else:
        detail = "at most limits.max_migrations_per_node from or to one node as well"
        result.differs(path, target, detail)


def _node_inflow(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    limit = section.max_node_inflow
    result.limits["max_migrations_per_node"] = limit
    detail = "parallel migrations from or to a node, not the migrations of a plan"
    result.differs(path, f"limits.max_migrations_per_node = {limit}", detail)


def _job_validation(
    section: BalancingSection, path: KeyPath, result: Translation
) -> None:
    seconds = section.max_job_validation
    result.limits["migration_timeout"] = seconds
    detail = "the migration is aborted after this time, not only no longer followed"
    result.differs(path, f"limits.migration_timeout = {seconds}", detail)


def _live(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    if section.live:
        result.taken(path, "", "virtual machines migrate live")
    else:
        detail = "virtual machines that run migrate live; none is shut down"
        result.unsupported(path, detail)


def _balance_types(
    section: BalancingSection, path: KeyPath, result: Translation
) -> None:
    containers = "ct" in section.balance_types
    result.platform["restart_containers"] = containers
    target = f"restart_containers = {str(containers).lower()}"
    if "vm" in section.balance_types:
        result.taken(path, target)
        return
    detail = (
        "virtual machines are migrated as well; the tag plb_ignore keeps one on its "
        "node"
    )
    result.differs(path, target, detail)


def _switch(field_name: str, setting: str) -> _Translate:
    """Return the translation of a switch to a setting of the platform."""

    def translate(
        section: BalancingSection, path: KeyPath, result: Translation
    ) -> None:
        value = getattr(section, field_name)
        result.platform[setting] = value
        result.taken(path, f"{setting} = {str(value).lower()}")

    return translate


def _local_disks(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    value = section.with_local_disks
    result.limits["migrate_local_disks"] = value
    result.taken(path, f"limits.migrate_local_disks = {str(value).lower()}")


def _balanciness(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    detail = (
        "difference of the loads of two nodes at half load on average; the threshold "
        "is the imbalance (CV) of all nodes, by CPU and memory load"
    )
    result.differs(
        path, f"{_OPTIMIZE}.threshold = {section.balanciness / 100:g}", detail
    )


def _gate(resource: str) -> _Translate:
    """Return the translation of the threshold of *resource* to a gate of the limits."""

    def translate(
        section: BalancingSection, path: KeyPath, result: Translation
    ) -> None:
        percent = getattr(section, f"{resource}_threshold")
        if section.method != resource:
            result.taken(path, "", f"no effect with the method {section.method}")
            return
        name = f"balance_above_{resource}_load"
        result.limits[name] = percent / 100
        result.differs(path, f"limits.{name} = {percent / 100:g}", _GATE)

    return translate


def _method(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    if section.method == "disk":
        detail = "disk space is not balanced; memory is balanced instead"
        result.unsupported(path, detail)
        return
    detail = f"migrations are chosen to balance {section.method} with the fewest bytes"
    result.differs(path, f"{_OPTIMIZE}.{section.method}_weight = 1", detail)


def _mode(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    if section.mode == "psi":
        detail = (
            "relieves guests that wait for CPU or memory, one migration in each cycle; "
            "also a node in maintenance is drained one by one"
        )
        result.differs(path, f"{_OPTIMIZE}.priorities: contention", detail)
        return
    model = result.policy["load_model"]
    detail = {
        "dynamic": "CPU is averaged over load_window (5 min), not over an hour",
        "static": "the limits of the guests count",
    }[model]
    target = f"{_OPTIMIZE}.load_model = {model}"
    if model == "static":
        result.taken(path, target, detail)
    else:
        result.differs(path, target, detail)


def _larger_first(
    section: BalancingSection, path: KeyPath, result: Translation
) -> None:
    del section
    detail = "the search chooses the guests; nothing is to be set"
    result.unsupported(path, detail)


def _reserve(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    reserves = section.node_resource_reserve
    memory = {
        name: each["memory"] for name, each in reserves.items() if "memory" in each
    }
    others = sorted({kind for each in reserves.values() for kind in each} - {"memory"})
    everywhere = memory.pop("defaults", None)
    if everywhere is not None:
        result.limits["reserved_memory"] = f"{everywhere:g} GiB"
    overrides = [
        {"nodes": [name], "reserved_memory": f"{amount:g} GiB"}
        for name, amount in memory.items()
    ]
    if overrides:
        result.limits["overrides"] = overrides
    if others:
        detail = f"memory alone is reserved, not {', '.join(others)}"
        result.differs(path, "limits.reserved_memory", detail)
    elif everywhere is None and not overrides:
        result.taken(path, "", "no reserve: nothing is to be set")
    else:
        result.taken(path, "limits.reserved_memory")


def _cpu_overcommit(
    section: BalancingSection, path: KeyPath, result: Translation
) -> None:
    if not section.cpu_overcommit or section.cpu_overcommit < 0:
        result.taken(path, "", "no limit: nothing is to be set")
        return
    result.limits["cpu_overcommit"] = section.cpu_overcommit
    target = f"limits.cpu_overcommit = {section.cpu_overcommit:g}"
    result.taken(path, target)


def _psi(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    if section.mode != "psi":
        result.taken(path, "", f"no effect with the mode {section.mode}")
        return
    detail = (
        "set policy.optimize.pressure_threshold, the fraction of the time that a guest "
        "may wait for CPU or memory (default 0.2)"
    )
    result.unsupported(path, detail)


def _ignore_guests(
    section: BalancingSection, path: KeyPath, result: Translation
) -> None:
    translate_ignored_guests(section.ignore_guests, path, result)


def _pools(section: BalancingSection, path: KeyPath, result: Translation) -> None:
    for name, pool in section.pools.items():
        at = (*path, name)
        table = _pool_table(pool)
        if not table:
            result.taken(at, "", "neither type nor pin: nothing is to be set")
            continue
        result.platform.setdefault("pools", {})[name] = table
        detail = "strict: more guests than nodes are reported as a contradiction"
        if pool.type == "anti-affinity":
            result.differs(at, f"pools.{name}", detail)
        else:
            result.taken(at, f"pools.{name}")


def _pool_table(pool: Pool) -> Tables:
    table: Tables = {}
    if pool.type is not None:
        table["kind"] = pool.type
    if pool.pin:
        table["nodes"] = list(pool.pin)
        table["strict_nodes"] = pool.strict
    return table


_Translate = Callable[[BalancingSection, KeyPath, Translation], None]
_TRANSLATIONS: Mapping[str, _Translate] = {
    "enable": _enable,
    "enforce_affinity": _enforce,
    "enforce_pinning": _enforce,
    "parallel": _parallel,
    "parallel_jobs": _parallel,
    "max_node_inflow": _node_inflow,
    "live": _live,
    "with_local_disks": _local_disks,
    "with_conntrack_state": _switch("with_conntrack_state", "keep_connections"),
    "balance_types": _balance_types,
    "max_job_validation": _job_validation,
    "balanciness": _balanciness,
    "memory_threshold": _gate("memory"),
    "cpu_threshold": _gate("cpu"),
    "method": _method,
    "mode": _mode,
    "balance_larger_guests_first": _larger_first,
    "node_resource_reserve": _reserve,
    "cpu_overcommit": _cpu_overcommit,
    "psi": _psi,
    "ignore_guests": _ignore_guests,
    "pools": _pools,
}
