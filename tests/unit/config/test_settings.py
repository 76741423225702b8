"""Configuration files are read completely, or all errors are reported."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from opendrs.cli.platforms import PLATFORMS
from opendrs.config import DiagnosticCode, path_text
from opendrs.config.parsing import parse_toml
from opendrs.config.policy_loading import build_policy, parse_assignments
from opendrs.config.settings import (
    NO_SETTINGS,
    Settings,
    StalenessLimits,
    default_store_path,
)
from opendrs.config.settings_reading import read_settings, settings_and_diagnostics
from opendrs.errors import (
    ConfigurationError,
    InvalidSettingError,
    UnknownPlatformError,
    UnknownPolicyError,
)
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    AntiAffinity,
    Limits,
    MutualAntiAffinity,
    Network,
    NodeId,
)
from opendrs.platforms.libvirt import LibvirtSettings
from opendrs.platforms.snapshot_file import SnapshotFileSettings
from opendrs.policies import BUILT_IN_POLICIES, AutoRebalance, Balance
from support.builders import guest_ids

Read = Callable[[str], Settings]
ReadDiagnostics = Callable[[str], list[str]]
KNOWN = ", ".join(sorted(BUILT_IN_POLICIES))


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def settings(text: str) -> Settings:
        path = tmp_path / "opendrs.toml"
        path.write_text(text)
        return read_settings(path, PLATFORMS)

    return settings


@pytest.fixture
def diagnostics(read: Read, tmp_path: Path) -> ReadDiagnostics:
    def lines(text: str) -> list[str]:
        with pytest.raises(ConfigurationError) as raised:
            read(text)
        return str(raised.value).replace(f"{tmp_path}/opendrs.toml", "FILE").split("\n")

    return lines


def codes_and_fields(text: str) -> list[tuple[DiagnosticCode, str]]:
    document = parse_toml(text, "FILE")
    _, found = settings_and_diagnostics(document, "FILE", Path(), PLATFORMS)
    return [(each.code, path_text(each.path + each.subpath)) for each in found]


def test_an_empty_file_gives_the_defaults(read: Read) -> None:
    assert read("") == NO_SETTINGS


def test_reads_platforms(read: Read, tmp_path: Path) -> None:
    settings = read(
        '[platform.lab]\nkind = "libvirt"\nbandwidth = 104857600\n'
        'nodes = {h1 = "qemu+tls://h1/system", h2 = "qemu+tls://h2/system"}\n'
        'labels = {h1 = ["ssd"]}\n'
        '[platform.saved]\nkind = "file"\npath = "cluster.json"\n'
    )

    assert settings.connection("lab").settings == LibvirtSettings(
        nodes={"h1": "qemu+tls://h1/system", "h2": "qemu+tls://h2/system"},
        labels={"h1": ("ssd",)},
        bandwidth=104857600,
    )
    assert settings.connection("saved").settings == SnapshotFileSettings(
        path=tmp_path / "cluster.json"
    )


def test_reads_the_policy_and_its_settings(read: Read) -> None:
    settings = read(
        '[policy]\nname = "auto-rebalance"\n'
        '[policy.auto-rebalance]\nhold = 5\nload_model = "static"\nmargin = 0\n'
        "[policy.balance]\nmax_migrations = 3\n"
    )

    assert settings.load_policy() == AutoRebalance(
        hold=5, load_model=LoadModel.STATIC, margin=0.0
    )
    assert settings.load_policy("balance") == Balance(max_migrations=3)


def test_command_line_overrides_configuration(read: Read) -> None:
    settings = read("[policy.balance]\nmax_migrations = 3\nthreshold = 0.5\n")

    policy = settings.load_policy(changes={"threshold": 0.25})

    assert policy == Balance(max_migrations=3, threshold=0.25)


def test_limits_bind_every_policy(read: Read) -> None:
    settings = read("[limits]\ncooldown = 0\nmax_parallel_migrations = 1\n")

    limits = Limits(cooldown=0, max_parallel_migrations=1)
    assert settings.limits == limits
    assert settings.load_policy("auto-rebalance").limits == limits


def test_reads_networks(read: Read) -> None:
    settings = read(
        '[[limits.networks]]\nname = "uplink"\nnodes = ["a", "b"]\n'
        "max_parallel_migrations = 1\nbandwidth = 125e6\n"
    )

    nodes = (NodeId("a"), NodeId("b"))
    network = Network(
        name="uplink", nodes=nodes, max_parallel_migrations=1, bandwidth=125e6
    )
    assert settings.limits == Limits(networks=(network,))


def test_reads_rules(read: Read) -> None:
    settings = read('[[rules]]\nkind = "anti-affinity"\nguests = ["a", "b"]\n')

    assert settings.rules == (AntiAffinity(guests=guest_ids("a", "b"), strict=True),)


def test_reads_a_rule_between_two_groups(read: Read) -> None:
    settings = read(
        '[[rules]]\nkind = "anti-affinity"\ntags = ["production"]\n'
        'other_tags = ["test"]\nother_guests = ["lab"]\nstrict = false\nweight = 2\n'
    )

    (rule,) = settings.rules
    assert rule == MutualAntiAffinity(
        tags=frozenset({"production"}),
        other_tags=frozenset({"test"}),
        other_guests=guest_ids("lab"),
        strict=False,
        weight=2.0,
    )


def test_store_path_is_read(read: Read, tmp_path: Path) -> None:
    settings = read('[store]\npath = "records/lab.sqlite"\n')

    assert settings.store_path("lab") == tmp_path / "records/lab.sqlite"


def test_retention_of_store_is_read(read: Read) -> None:
    default = read('[store]\npath = "a"\n').store
    changed = read(
        '[store]\npath = "a"\nretention = "2 d"\ninput_cycles = 1440\n'
    ).store

    assert default is not None
    assert changed is not None
    assert (default.retention, default.input_cycles) == (30 * 86_400.0, 360)
    assert (changed.retention, changed.input_cycles) == (2 * 86_400.0, 1440)


@pytest.mark.parametrize(
    "line",
    [
        "retention = 60",
        'retention = "9999 d"',
        "input_cycles = 0",
        "input_cycles = 0.5",
    ],
)
def test_invalid_retention_is_an_error(read: Read, line: str) -> None:
    with pytest.raises(ConfigurationError, match=line.split(maxsplit=1)[0]):
        read(f'[store]\npath = "a"\n{line}\n')


def test_store_path_defaults_to_state_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/op")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    usual = default_store_path("lab")
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    chosen = default_store_path("lab")
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    invalid = default_store_path("lab")

    assert usual == Path("/home/op/.local/state/opendrs/lab.sqlite")
    assert chosen == Path("/var/state/opendrs/lab.sqlite")
    assert invalid == usual


@pytest.mark.parametrize(
    ("text", "code", "field"),
    [
        (
            "[limit]\n",
            DiagnosticCode.UNKNOWN_KEY,
            "limit",
        ),
        ("limits = 3", DiagnosticCode.WRONG_TYPE, "limits"),
        (
            "[limits]\ncooldwon = 3",
            DiagnosticCode.UNKNOWN_KEY,
            "limits.cooldwon",
        ),
        (
            '[limits]\ncooldown = "3"',
            DiagnosticCode.INVALID_VALUE,
            "limits.cooldown",
        ),
        (
            "[limits]\nmax_parallel_migrations = 1.5",
            DiagnosticCode.WRONG_TYPE,
            "limits.max_parallel_migrations",
        ),
        (
            "[limits]\nmax_parallel_migrations = true",
            DiagnosticCode.WRONG_TYPE,
            "limits.max_parallel_migrations",
        ),
        (
            "[limits]\nmax_parallel_migrations = 0",
            DiagnosticCode.OUT_OF_RANGE,
            "limits.max_parallel_migrations",
        ),
        (
            '[[limits.networks]]\nname = "x"\nnodes = ["a"]\nmove = 1',
            DiagnosticCode.UNKNOWN_KEY,
            "limits.networks[0].move",
        ),
        (
            (
                '[[limits.networks]]\nname = "x"\nnodes = ["a"]\n'
                "max_parallel_migrations = 0"
            ),
            DiagnosticCode.INVALID_VALUE,
            "limits.networks[0]",
        ),
        (
            (
                '[[limits.networks]]\nname = "x"\nnodes = "a"\n'
                "max_parallel_migrations = 1"
            ),
            DiagnosticCode.WRONG_TYPE,
            "limits.networks[0].nodes",
        ),
        (
            '[policy]\nname = "ballance"',
            DiagnosticCode.UNKNOWN_NAME,
            "policy.name",
        ),
        ("[policy]\nname = 1", DiagnosticCode.WRONG_TYPE, "policy.name"),
        (
            "[policy]\nthreshold = 1",
            DiagnosticCode.WRONG_TYPE,
            "policy.threshold",
        ),
        (
            "[policy.balance]\nmin_improvement = 2",
            DiagnosticCode.OUT_OF_RANGE,
            "policy.balance.min_improvement",
        ),
        (
            "[policy.balance]\nlimits = {}",
            DiagnosticCode.UNKNOWN_KEY,
            "policy.balance.limits",
        ),
        (
            '[policy.balance]\nload_model = "guess"',
            DiagnosticCode.UNKNOWN_VALUE,
            "policy.balance.load_model",
        ),
        (
            "[platform.lab]\n",
            DiagnosticCode.MISSING_KEY,
            "platform.lab.kind",
        ),
        (
            '[platform.lab]\nkind = "vmware"',
            DiagnosticCode.UNKNOWN_VALUE,
            "platform.lab.kind",
        ),
        (
            '[platform.lab]\nkind = "file"',
            DiagnosticCode.MISSING_KEY,
            "platform.lab.path",
        ),
        (
            '[platform.lab]\nkind = "libvirt"\nnodes = {}',
            DiagnosticCode.INVALID_VALUE,
            "platform.lab.nodes",
        ),
        (
            '[platform.demo]\nkind = "file"\npath = "x"',
            DiagnosticCode.INVALID_VALUE,
            "platform.demo",
        ),
        (
            '[platform."../x"]\nkind = "file"\npath = "x"',
            DiagnosticCode.INVALID_VALUE,
            'platform."../x"',
        ),
        ("[store]\n", DiagnosticCode.MISSING_KEY, "store.path"),
        (
            '[[rules]]\nkind = "affinity"\nguests = ["a"]',
            DiagnosticCode.INVALID_VALUE,
            "rules[0]",
        ),
        ("rules = 3", DiagnosticCode.WRONG_TYPE, "rules"),
    ],
)
def test_diagnostics_name_path_and_expected_value(
    text: str, code: DiagnosticCode, field: str
) -> None:
    assert codes_and_fields(text) == [(code, field)]


def test_all_diagnostics_are_reported_at_once(diagnostics: ReadDiagnostics) -> None:
    found = diagnostics(
        '[limits]\ncooldown = "x"\n'
        "[policy.nothing]\n"
        '[platform.lab]\nkind = "file"\npath = 3\n'
        "[[rules]]\n"
        "[store]\npath = 1\n"
    )

    places = [re.sub(r"^FILE: ([\w.\[\]]+).*", r"\1", line) for line in found]
    assert sorted(places) == [
        "limits.cooldown",
        "platform.lab.path",
        "policy.nothing",
        "rules[0].kind",
        "store.path",
    ]


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_settings(tmp_path / "opendrs.toml", PLATFORMS)


def test_unknown_platform_error_lists_platforms(read: Read) -> None:
    settings = read('[platform.lab]\nkind = "file"\npath = "x"\n')

    with pytest.raises(UnknownPlatformError, match=r"did you mean lab\?"):
        settings.connection("labb")


def test_builds_a_policy_with_its_defaults() -> None:
    assert build_policy("balance") == Balance(limits=DEFAULT_LIMITS)


def test_unknown_policy_error_lists_policies() -> None:
    with pytest.raises(UnknownPolicyError) as raised:
        build_policy("balanc")

    assert str(raised.value) == (
        f'"balanc": unknown policy; did you mean balance? (known: {KNOWN})'
    )


def test_unknown_setting_error_lists_settings() -> None:
    with pytest.raises(InvalidSettingError) as raised:
        build_policy("auto-rebalance", {"treshold": 1, "hold": "x"})

    assert str(raised.value).splitlines() == [
        (
            "policy auto-rebalance: treshold: unknown setting; did you mean threshold? "
            "(known: hold, imbalance_metric, load_model, margin, method, "
            "repair_first, threshold)"
        ),
        'policy auto-rebalance: hold: expected a whole number, got "x"',
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("hold=3", 3),
        ("hold=0.5", 0.5),
        ("hold = true", True),
        ('hold="3"', "3"),
        ("hold=static", "static"),
        ("hold=a=b", "a=b"),
        ("hold=", ""),
        ("hold=1\nother = 2", "1\nother = 2"),
        ("hold=" + "[" * 10_000, "[" * 10_000),
    ],
)
def test_assignment_is_parsed_as_toml_or_text(text: str, value: object) -> None:
    assert parse_assignments([text]) == {"hold": value}


def test_the_last_assignment_counts() -> None:
    assert parse_assignments(["hold=1", "hold=2"]) == {"hold": 2}


@pytest.mark.parametrize("text", ["hold", "=3", ""])
def test_an_assignment_needs_a_name_and_a_value(text: str) -> None:
    with pytest.raises(InvalidSettingError, match="expected KEY=VALUE"):
        parse_assignments([text])


AGENT = """
[agent]
node = "alpha"
controller = "https://drs.example:8443"
token_file = "token"
ca = "/etc/ca.pem"
"""


def test_agent_settings_are_read(read: Read, tmp_path: Path) -> None:
    agent = read(AGENT).agent

    assert agent is not None
    assert (agent.node, agent.controller) == ("alpha", "https://drs.example:8443")
    assert (agent.token_file, agent.ca) == (tmp_path / "token", Path("/etc/ca.pem"))
    assert (agent.interval, agent.timeout) == (300, 10)


@pytest.mark.parametrize(
    ("line", "code", "field"),
    [
        ('controller = "http://drs"', DiagnosticCode.INVALID_VALUE, "agent.controller"),
        (
            'controller = "https://me:pw@drs"',
            DiagnosticCode.INVALID_VALUE,
            "agent.controller",
        ),
        (
            'controller = "https://drs/path"',
            DiagnosticCode.INVALID_VALUE,
            "agent.controller",
        ),
        (
            'controller = "https://drs:port"',
            DiagnosticCode.INVALID_VALUE,
            "agent.controller",
        ),
        (
            'controller = "https://drs:99999"',
            DiagnosticCode.INVALID_VALUE,
            "agent.controller",
        ),
        (
            'controller = "https://[::1"',
            DiagnosticCode.INVALID_VALUE,
            "agent.controller",
        ),
        (
            'controller = "https://a..b:8443"',
            DiagnosticCode.INVALID_VALUE,
            "agent.controller",
        ),
        ('node = ""', DiagnosticCode.INVALID_VALUE, "agent.node"),
        ('node = "h/../../x"', DiagnosticCode.INVALID_VALUE, "agent.node"),
        ('node = "h1\\u0000"', DiagnosticCode.INVALID_VALUE, "agent.node"),
        ("interval = 0", DiagnosticCode.OUT_OF_RANGE, "agent.interval"),
        ("timeout = -1", DiagnosticCode.OUT_OF_RANGE, "agent.timeout"),
        ("interval = 1e9", DiagnosticCode.OUT_OF_RANGE, "agent.interval"),
        ("interval = nan", DiagnosticCode.OUT_OF_RANGE, "agent.interval"),
        ('token = "secret"', DiagnosticCode.UNKNOWN_KEY, "agent.token"),
    ],
)
def test_invalid_agent_settings_are_diagnosed(
    diagnostics: ReadDiagnostics, line: str, code: DiagnosticCode, field: str
) -> None:
    name = line.partition(" =")[0]
    kept = [each for each in AGENT.splitlines() if not each.startswith(f"{name} =")]
    text = "\n".join([*kept, line])

    assert codes_and_fields(text) == [(code, field)]
    (logged,) = diagnostics(text)
    assert "me:pw" not in logged


REQUESTS = """
[policy]
name = "consolidate"

[api]
certificate = "drs.pem"
key = "/etc/drs.key"
tokens = "tokens.toml"
"""


def test_controller_and_api_settings_are_read(read: Read, tmp_path: Path) -> None:
    settings = read(f"{REQUESTS}[controller]\ninterval = 60")

    assert settings.api is not None
    assert settings.api.certificate == tmp_path / "drs.pem"
    assert settings.api.key == Path("/etc/drs.key")
    assert settings.api.tokens == tmp_path / "tokens.toml"
    assert settings.api.address == ("0.0.0.0", 8443)  # noqa: S104 - the default
    assert settings.controller.interval == 60


def test_staleness_limits_default_to_interval(read: Read) -> None:
    by_default = read(REQUESTS).api
    said = read(
        f"{REQUESTS}agent_timeout = 50\nmax_sample_age = 20\nmax_clock_skew = 5"
    ).api

    assert by_default is not None
    assert by_default.staleness_limits(100) == StalenessLimits(
        interval=100, agent_timeout=300, max_sample_age=100, max_clock_skew=60
    )
    assert said is not None
    assert said.staleness_limits(100) == StalenessLimits(
        interval=100, agent_timeout=50, max_sample_age=20, max_clock_skew=5
    )


def test_api_is_disabled_by_default(read: Read) -> None:
    settings = read("")

    assert settings.api is None
    assert settings.controller.interval == 300


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("[::1]:8443", ("::1", 8443)),
        ("drs.example:0", ("drs.example", 0)),
    ],
)
def test_an_address_is_split_into_host_and_port(
    read: Read, listen: str, address: tuple[str, int]
) -> None:
    requests = read(f'{REQUESTS}listen = "{listen}"').api

    assert requests is not None
    assert requests.address == address


@pytest.mark.parametrize(
    ("line", "code", "field"),
    [
        ('listen = "8443"', DiagnosticCode.INVALID_VALUE, "api.listen"),
        ('listen = "::1:8443"', DiagnosticCode.INVALID_VALUE, "api.listen"),
        ('listen = "host:65536"', DiagnosticCode.INVALID_VALUE, "api.listen"),
        (
            "agent_timeout = 0",
            DiagnosticCode.OUT_OF_RANGE,
            "api.agent_timeout",
        ),
        ("max_sample_age = 1e6", DiagnosticCode.OUT_OF_RANGE, "api.max_sample_age"),
        ("max_clock_skew = -1", DiagnosticCode.OUT_OF_RANGE, "api.max_clock_skew"),
        ("batch_window = inf", DiagnosticCode.OUT_OF_RANGE, "api.batch_window"),
        ("key = 1", DiagnosticCode.WRONG_TYPE, "api.key"),
        ('token = "x"', DiagnosticCode.UNKNOWN_KEY, "api.token"),
        (
            "[controller]\ninterval = 0",
            DiagnosticCode.OUT_OF_RANGE,
            "controller.interval",
        ),
        (
            "[controller]\nintervall = 1",
            DiagnosticCode.UNKNOWN_KEY,
            "controller.intervall",
        ),
    ],
)
def test_invalid_api_settings_are_diagnosed(
    line: str, code: DiagnosticCode, field: str
) -> None:
    name = line.partition(" =")[0]
    kept = [each for each in REQUESTS.splitlines() if not each.startswith(f"{name} =")]

    assert codes_and_fields("\n".join([*kept, line])) == [(code, field)]


def test_api_requires_policy_consolidate(diagnostics: ReadDiagnostics) -> None:
    for text in (REQUESTS.replace("consolidate", "balance"), REQUESTS.split("\n\n")[1]):
        (logged,) = diagnostics(text)

        assert logged.startswith("FILE: policy.name: ")
        assert logged.endswith('"balance"')
