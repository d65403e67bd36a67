"""deploy/compose.yaml and deploy/heddle.service say what the commands and the settings are."""

import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from heddle.app.setting import fields_of
from heddle.cli.config_options import CONFIGS
from heddle.cli.main import command_parser
from heddle.cli.serve import EXIT_CUT
from heddle.server.http_config import HttpConfig

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
SERVICES: Final = COMPOSE["services"]
VARIABLES: Final = {
    field.variable: field for config in CONFIGS for field in fields_of(config).values()
}


@pytest.mark.parametrize("name", ["heddle", "index"])
def test_the_containers_run_commands_that_are_there(name: str) -> None:
    command, *arguments = SERVICES[name]["command"]
    command_parser(command).parse(arguments)
    for variable, value in SERVICES[name].get("environment", {}).items():
        VARIABLES[variable].read(value if "$" not in value else value.split(":-")[1].rstrip("}"))
    context = DEPLOY / SERVICES[name]["build"]["context"]
    assert (context / "Dockerfile").is_file()


@pytest.mark.parametrize("name", ["heddle", "index"])
def test_the_containers_run_on_postgresql_too(name: str) -> None:
    found = yaml.safe_load((DEPLOY / "compose.postgres.yaml").read_text("utf-8"))
    command, *arguments = found["services"][name]["command"]
    command_parser(command).parse(arguments)
    database = found["services"]["postgres"]["environment"]
    url = f"postgresql://{database['POSTGRES_USER']}@postgres/{database['POSTGRES_DB']}"
    assert url in arguments
    assert found["volumes"].keys() == {"postgres"}


def test_open_webui_reaches_heddle_by_a_name_that_is_allowed() -> None:
    url = SERVICES["open-webui"]["environment"]["OPENAI_API_BASE_URL"]
    environment = SERVICES["heddle"]["environment"]
    assert url == f"http://{environment['HEDDLE_ALLOWED_HOSTS']}:{environment['HEDDLE_PORT']}/v1"


def test_only_this_machine_reaches_the_ports_and_every_volume_is_declared() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", ())]
    named = {mount.partition(":")[0] for mount in mounts if mount[0] not in "./$"}
    assert named == COMPOSE["volumes"].keys()


def unit() -> ConfigParser:
    found = ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    found.optionxform = str
    found.read(DEPLOY / "heddle.service", encoding="utf-8")
    return found


def test_the_unit_starts_a_command_that_is_there() -> None:
    service = unit()["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/heddle")
    command_parser(command).parse(arguments)
    assert service["SuccessExitStatus"] == str(EXIT_CUT)
    assert service["KillMode"] == "mixed"  # else lanes get SIGTERM, too, and requests can't end
    assert float(service["TimeoutStopSec"]) > HttpConfig().grace_s


def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    # It looks whether the program is there.
    text = (DEPLOY / "heddle.service").read_text("utf-8")
    copy = tmp_path / "heddle.service"
    copy.write_text(text.replace("/opt/heddle/bin/heddle serve", f"{sys.executable} serve"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True
    )
    said = [line for line in done.stderr.splitlines() if "heddle.service" in line]
    assert (done.returncode, said) == (0, [])
