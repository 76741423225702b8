"""The command line on the double of Proxmox VE: connect, check, show, plan, apply."""

from __future__ import annotations

import io
import itertools
import json
import signal
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock

import pytest
import tomli_w

from opendrs.cli.connect import validated_settings
from opendrs.config.platform_kinds import OnlineCheck
from opendrs.platforms.proxmox import ProxmoxSettings
from opendrs.platforms.proxmox.checks import check_online
from support.forked_program import (
    ForkedProgram,
    opendrs_program,
    polling_opendrs,
    run_forked,
)
from support.howto_pages import HowToPage
from support.https_server import Answer, Certificate, Request
from support.pve_access import PASSWORD
from support.pve_cluster import PveCluster, PveGuest
from support.pve_clusters import imbalanced_cluster
from support.pve_double import (
    LOGIN,
    SLOW_MACHINE,
    TOKEN_VARIABLE,
    RunningDouble,
    run_double,
)
from support.pve_fixtures import PVE_MARKS, Serve, passing_time, serve, with_guests
from support.terminal import RunOpendrs
from unit.cli.conftest import opendrs

__all__ = ["opendrs", "serve"]  # fixtures
pytestmark = PVE_MARKS
SPEED = 60.0
PAGE = HowToPage("proxmox.md")


def configure(running: RunningDouble, **changes: object) -> None:
    """Write opendrs.toml and the token in the current directory."""
    Path("token").write_text(LOGIN + "\n")
    Path("token").chmod(0o600)
    platform = {
        "kind": "proxmox",
        "hosts": [server.host for server in running.servers],
        "fingerprints": [running.certificate.fingerprint],
        "token_file": "token",
        "load_window": 0,
        **SLOW_MACHINE,
        **changes,
    }
    document = {
        "platform": {"lab": platform},
        "policy": {
            "name": "balance",
            "balance": {"load_model": "static", "min_improvement": 0.05},
        },
        "store": {"path": "store.sqlite"},
    }
    Path("opendrs.toml").write_text(tomli_w.dumps(document))


def test_show_and_plan_read_the_cluster(serve: Serve, opendrs: RunOpendrs) -> None:
    running = serve(imbalanced_cluster("9.2.11", nodes=3, guests=24))
    configure(running)

    shown = opendrs("show", "lab", "--format", "json")
    planned = opendrs("plan", "lab", "--format", "json")

    assert (shown.status, planned.status) == (0, 0)
    document = json.loads(shown.out)
    assert len(document["snapshot"]["nodes"]) == 3
    assert json.loads(planned.out)["steps"]
    assert running.cluster.tasks == []
    assert LOGIN.partition("=")[2] not in shown.out + planned.out + planned.err


@pytest.mark.slow
def test_howto_leads_to_a_balanced_cluster(
    serve: Serve, opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = serve(imbalanced_cluster("9.1.2", nodes=3, guests=12))
    access = running.double.access
    access.roles, access.acl = {}, {}
    answer(monkeypatch, f"{running.servers[0].host}\ny\nn\nn\n")
    before = most_on_a_node(running.cluster)

    def run(command: str) -> None:
        result = opendrs(*command.split()[1:])
        assert result.status == 0, (command, result.err)

    with passing_time(running.cluster, SPEED):
        PAGE.run({"pveum": access.pveum, "opendrs": run})

    assert most_on_a_node(running.cluster) < before
    assert failed(checks(running)) == []


def test_howto_configuration_is_valid() -> None:
    connection, loads, disks = (tomllib.loads(block) for block in PAGE.blocks("toml"))
    table = connection["platform"]["lab"] | loads["platform"]["lab"]
    limits = loads["limits"] | disks["limits"]
    document = {"platform": {"lab": table}, "limits": limits}

    settings = validated_settings(tomli_w.dumps(document), Path("opendrs.toml"))

    found = settings.connection("lab").settings
    assert isinstance(found, ProxmoxSettings)
    assert found.network_capacity == 2.5e9  # 20 Gbit/s in bytes per second
    assert [each.name for each in settings.limits.loads] == ["network", "io-pressure"]
    (group,) = settings.limits.storage_groups
    assert group.storages == ("nvme1", "nvme2")


@pytest.mark.slow
def test_apply_balances_the_cluster(serve: Serve, opendrs: RunOpendrs) -> None:
    running = serve(imbalanced_cluster("9.1.2", nodes=3, guests=24))
    configure(running)
    before = most_on_a_node(running.cluster)

    with passing_time(running.cluster, SPEED):
        applied = opendrs("apply", "lab", "--yes")

    assert applied.status == 0, applied.err
    assert most_on_a_node(running.cluster) < before
    assert all(task.status == "OK" for task in running.cluster.tasks)


def most_on_a_node(cluster: PveCluster) -> int:
    return max(Counter(guest.node for guest in cluster.guests.values()).values())


@pytest.mark.slow
def test_killed_apply_is_continued_and_starts_nothing_twice(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    cluster = imbalanced_cluster("9.1.2", nodes=3, guests=12)
    for guest in cluster.guests.values():
        guest.duration = 60.0
    running = serve(cluster)
    configure(running)
    process = ForkedProgram(opendrs_program, APPLY)
    with passing_time(cluster, SPEED):
        wait_for_start(running)
        process.send_signal(signal.SIGKILL)
        process.wait()
        started = {task.vmid for task in cluster.tasks}

        again = opendrs("apply", "lab", "--yes")

    assert again.status in (0, 1), again.err
    assert started
    counts = Counter((task.vmid, task.type) for task in cluster.tasks)
    assert max(counts.values()) == 1
    assert not any(task.end is None for task in cluster.tasks)


def small(ha: str | None) -> PveCluster:
    """Return a cluster in which one guest is to migrate."""
    guests = [PveGuest(100 + n, f"g{n}", "h1", ha=ha, duration=3.0) for n in range(2)]
    return with_guests(*guests)


APPLY = ("apply", "lab", "--yes")


def request_number(number: int) -> Callable[[Request], bool]:
    """Return a function that is true of the request *number*, from 1."""
    count = itertools.count(1)
    return lambda _: next(count) == number


def kill_at(
    running: RunningDouble,
    is_last: Callable[[Request], bool],
    *,
    has_effect: bool,
    words: Sequence[str] = APPLY,
) -> str | None:
    """Run a command and kill it at a request.

    Args:
        running: The double.
        is_last: Called with each request in order; true of the one.
        has_effect: Whether the request has its effect, whose answer is lost.
        words: The command.

    Returns:
        The method of the request; None if the command ended before it.
    """
    processes: list[ForkedProgram] = []
    lock, started = Lock(), Event()
    methods: list[str] = []

    def fault(request: Request) -> Answer | None:
        started.wait()
        with lock:
            if methods or not is_last(request):
                return None
            methods.append(request.method)
            if has_effect:
                running.double._respond(request)  # noqa: SLF001 - its answer is lost
            processes[0].kill()
            processes[0].wait()
            return Answer(500, "killed")

    running.double.fault = fault
    with ForkedProgram(polling_opendrs, words) as process:
        processes.append(process)
        started.set()
    running.double.fault = lambda _: None
    assert process.returncode == (-signal.SIGKILL if methods else 0)
    return methods[0] if methods else None


@pytest.mark.slow
@pytest.mark.usefixtures("opendrs")  # for its directory
@pytest.mark.parametrize("ha", [None, "started"])
def test_apply_killed_at_each_request_starts_nothing_twice(ha: str | None) -> None:
    certificate = Certificate()
    methods: list[str] = []
    for number in itertools.count(1):
        method = killed_and_resumed(certificate, ha, number, has_effect=True)
        if method is None:
            break
        methods.append(method)
        if method != "GET":  # the effect of a read is its answer
            killed_and_resumed(certificate, ha, number, has_effect=False)

    assert methods.count("POST") == 1
    assert len(methods) > 20


def killed_and_resumed(
    certificate: Certificate, ha: str | None, number: int, *, has_effect: bool
) -> str | None:
    """Return the method of the request at which `apply` was killed, and apply again."""
    Path("store.sqlite").unlink(missing_ok=True)
    with (
        run_double(small(ha), certificate) as running,
        passing_time(running.cluster, SPEED),
    ):
        configure(running)
        method = kill_at(running, request_number(number), has_effect=has_effect)
        again = run_forked(polling_opendrs, APPLY)

    assert again.returncode == 0, (number, again.stdout, again.stderr)
    started = [kind for _, kind in running.cluster.migrations_started()]
    expected = ["qmigrate"] if ha is None else ["hamigrate", "qmigrate"]
    assert started == expected, number
    assert most_on_a_node(running.cluster) == 1
    return method


def wait_for_start(running: RunningDouble) -> None:
    for _ in range(6000):
        if running.cluster.tasks:
            return
        Event().wait(0.05)
    pytest.fail("no migration was started")


def checks(running: RunningDouble, **changes: object) -> list[OnlineCheck]:
    return list(check_online("lab", running.settings(**changes)))


def failed(found: list[OnlineCheck]) -> list[str]:
    return [check.subject for check in found if not check.ok]


def run_remedies(running: RunningDouble, found: list[OnlineCheck]) -> None:
    """Run the commands that grant what *found* reports as missing."""
    for check in found:
        for command in filter(None, check.remedy.split(" && ")):
            running.double.access.pveum(command)


@pytest.mark.parametrize("separated", [False, True])
@pytest.mark.parametrize(
    ("privilege", "subject"),
    [
        ("Sys.Audit", "Sys.Audit on /"),
        ("VM.Audit", "VM.Audit on /vms"),
        ("VM.Migrate", "VM.Migrate on /vms"),
    ],
)
def test_check_names_the_missing_privilege_and_the_command_that_grants_it(
    serve: Serve, privilege: str, subject: str, *, separated: bool
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    access = running.double.access
    access.roles["Balancer"].discard(privilege)
    access.separated = separated
    if separated:
        access.acl["/", "drs@pve!opendrs"] = {"Balancer"}

    found = checks(running)

    assert failed(found) == [subject]
    assert all(check.remedy for check in found if not check.ok)
    run_remedies(running, found)
    assert failed(checks(running)) == []


def test_check_token_without_privileges_is_content_after_its_commands(
    serve: Serve,
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    access = running.double.access
    access.separated = True  # privileges of the user are not those of the token

    found = checks(running)

    assert len(failed(found)) == 3
    run_remedies(running, found)
    assert failed(checks(running)) == []


def test_check_with_target_storage_needs_more_privileges(serve: Serve) -> None:
    running = serve(with_guests())

    found = checks(running, target_storage="fast")

    assert failed(found) == [
        "VM.Config.Disk on /vms",
        "Datastore.AllocateSpace on /storage",
    ]
    run_remedies(running, found)
    assert failed(checks(running, target_storage="fast")) == []


def test_check_names_hosts_that_do_not_answer(serve: Serve) -> None:
    running = serve(with_guests(), hosts=2)
    port = running.servers[1].port
    running.double.fault = lambda request: (
        Answer(595, "no") if request.headers["host"].endswith(str(port)) else None
    )

    assert failed(checks(running)) == [f"host {running.servers[1].host}"]


def test_check_online_prints_the_remedy(serve: Serve, opendrs: RunOpendrs) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    running.double.access.roles["Balancer"].discard("VM.Migrate")
    configure(running)

    result = opendrs("check", "opendrs.toml", "--online")

    assert result.status == 1
    assert "pveum role add OpenDRS --privs VM.Migrate" in result.out
    assert "pveum acl modify / --roles OpenDRS --users drs@pve" in result.out


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"token_file": "token"}, "token"),
        ({"token_file": "absent/token"}, "credentials/token"),
        ({"token_env": TOKEN_VARIABLE}, None),
        ({"user": "drs@pve", "password_file": "password"}, "password"),
        (
            {"user": "drs@pve", "password_file": "/none/password"},
            "credentials/password",
        ),
        ({"user": "drs@pve", "password_env": "PVE_PASSWORD"}, None),
    ],
)
def test_login_is_read_from_file_environment_and_systemd(
    serve: Serve,
    opendrs: RunOpendrs,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    place: str | None,
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    configure(running)
    document = tomllib.loads(Path("opendrs.toml").read_text())
    del document["platform"]["lab"]["token_file"]
    document["platform"]["lab"] |= settings
    Path("opendrs.toml").write_text(tomli_w.dumps(document))
    Path("token").unlink()
    secret = PASSWORD if "user" in settings else LOGIN
    if place is not None:
        Path("credentials").mkdir()
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(Path("credentials").absolute()))
        Path(place).write_text(secret + "\n")
        Path(place).chmod(0o600)
    else:
        monkeypatch.setenv("PVE_PASSWORD", PASSWORD)

    result = opendrs("check", "opendrs.toml", "--online")

    assert result.status == 0, (result.out, result.err)
    assert secret.rpartition("=")[2] not in result.out + result.err
    assert opendrs("show", "lab").status == 0


def answer(monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    """Answer the questions by *lines*, and the one for the token by that."""
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: LOGIN)


def test_connect_writes_a_configuration_that_works(
    serve: Serve, opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = serve(imbalanced_cluster("9.2.11", nodes=3, guests=12))
    answer(monkeypatch, f"{running.servers[0].host}\ny\nn\nn\n")

    result = opendrs("connect", "proxmox", "--name", "lab")

    assert result.status == 0, result.err
    written = tomllib.loads(Path("opendrs.toml").read_text())["platform"]["lab"]
    assert written["fingerprints"] == [running.certificate.fingerprint]
    assert LOGIN not in Path("opendrs.toml").read_text()
    assert Path("lab-token").stat().st_mode & 0o777 == 0o600
    assert opendrs("plan", "lab").status == 0


def test_connect_shows_the_fingerprint_before_a_secret_is_sent(
    serve: Serve, opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running = serve(with_guests())
    ca = running.certificate.write_authority(tmp_path / "ca.pem")
    answer(monkeypatch, f"{running.servers[0].host}\nn\n{ca}\nn\nn\n")

    result = opendrs("connect", "proxmox", "--name", "lab")

    assert result.status == 0, result.err
    assert running.certificate.fingerprint in result.err
    written = tomllib.loads(Path("opendrs.toml").read_text())["platform"]["lab"]
    assert (written["ca"], "fingerprints" in written) == (str(ca), False)
