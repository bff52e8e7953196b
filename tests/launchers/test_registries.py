"""A private image: the start-up script signs in to a real registry with a real Docker daemon, pulls,
and leaves nothing of the password. The registry is Debian's docker-registry with a file of users.
"""

import base64
import http.server
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from providers.model.workload import Registry
from providers.workloads.launch.start_script import SECRETS, script
from tests.launchers.docker import Host
from tests.launchers.machines import job

pytestmark = pytest.mark.long

PASSWORD, TOKEN = "let-me-pull", "ya29.of-the-machine"
USERS = """puller:$2b$04$lm3YGATKWlLW8XQ6vzeMD.ILd094UlJjc1zIXxALlAdkkSQvub5Z6
oauth2accesstoken:$2b$04$FFXAzDOBgYD.whLbGZzAKeVfJxSdV8aDy5Xo25o5Xw9FfqRICQ2vi
"""
"""Both passwords by bcrypt."""
CONFIG = """version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: "{host}"}}
auth: {{htpasswd: {{realm: test, path: {folder}/users}}}}
"""


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@pytest.fixture(scope="module")
def registry(daemon, tmp_path_factory):
    """(host, image) of a registry that shows the image to its users only; the daemon has it not."""
    if shutil.which("docker-registry") is None:
        pytest.skip("needs docker-registry: apt-get install docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    host = f"127.0.0.1:{free_port()}"
    (folder / "users").write_text(USERS)
    (folder / "config.yml").write_text(CONFIG.format(folder=folder, host=host))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=log
        )
    try:
        end = time.monotonic() + 20
        while not answers(host):
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.1)
        image = daemon.image(f"{host}/team/private:1")
        docker = ["docker", "--config", str(folder), "-H", daemon.host]
        for words, given in (
            (["login", "--username", "puller", "--password-stdin", host], PASSWORD.encode()),
            (["push", image], None),
            (["rmi", image], None),
        ):
            subprocess.run([*docker, *words], input=given, check=True, capture_output=True)
        yield host, image
    finally:
        process.terminate()
        process.wait(20)


def answers(host: str) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(f"http://{host}/", timeout=2).close()
        return True
    return False


@pytest.fixture
def host(daemon, tmp_path):
    made = Host(tmp_path / "m", daemon)
    yield made
    made.end()


def pulled(host, registry, user, command, secrets="", **more):
    """The exit code of a job in the private image. `secrets` is what the machine has fetched."""
    server, image = registry
    file = host.folder.parent / "secrets"
    file.write_text(secrets)
    made = job(command, image=image, registry=Registry(server, user), **more)
    text = script(made)
    assert f"\nsecrets={SECRETS}\n" in text
    return host.run(text.replace(f"\nsecrets={SECRETS}\n", f"\nsecrets={file}\n"))


def left(host) -> Path:
    """Where Docker keeps what it was given, while the image is pulled."""
    return Path(f"/run/gpus-registry{host.folder}/root")


def holding(folder: Path, secret: str) -> list[str]:
    """The files below a folder that have the secret, as it is or as Docker writes it."""
    forms = (secret.encode(), base64.b64encode(f"puller:{secret}".encode()))
    files = (file for file in folder.rglob("*") if file.is_file())
    return [str(file) for file in files if any(form in file.read_bytes() for form in forms)]


def test_a_private_image_is_pulled_and_nothing_is_left_of_the_password(
    daemon, host, registry
) -> None:
    """Neither setup nor the program finds it in its environment; no file, no command line and no
    folder of Docker's has it afterwards. Once the image is there, its registry is not asked.
    """
    left(host).mkdir(parents=True)  # of a run that was killed
    seen = {"setup": ("echo set up; env",)}
    secret = f"GPUS_REGISTRY_PASSWORD='{PASSWORD}'\nOTHER=seen\n"
    assert pulled(host, registry, "puller", "env; echo ran", secret, **seen) == 0, host.log
    assert host.words[-1] == "succeeded 0" and "ran" in host.log and "OTHER=seen" in host.log
    assert "OTHER=seen" in host.log.partition("set up")[2]
    assert holding(host.folder, PASSWORD) == [] and "GPUS_REGISTRY_PASSWORD" not in host.log
    assert f"login --username puller --password-stdin {registry[0]}" in host.calls
    assert not left(host).exists()
    assert pulled(host, registry, "puller", "echo again") == 0
    assert host.calls.count("login") == 1
    daemon.call("rmi", "-f", *daemon.call("images", "-q", "gpus-setup").split(), registry[1])


def test_a_refused_password_ends_it_at_once_and_says_whose(host, registry) -> None:
    """It is not tried again, nothing is pulled, and the password is not told."""
    began = time.monotonic()
    assert pulled(host, registry, "puller", "true", "GPUS_REGISTRY_PASSWORD=not-this-one\n") == 1
    assert host.words[-1].startswith(
        f"setup-wrong 1 {registry[0]} refused the user puller: look at"
    )
    assert host.calls.count("login") == 1 and time.monotonic() - began < 15
    assert "run" not in host.calls and holding(host.folder, "not-this-one") == []
    assert not left(host).exists()


def test_a_machine_signs_in_as_itself_with_its_accounts_token(daemon, host, registry) -> None:
    """The token comes from the metadata server, asked as it wants to be asked."""

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = self.headers["Metadata-Flavor"] == "Google" and self.path.endswith(
                "/instance/service-accounts/default/token"
            )
            self.send_response(200 if good else 403)
            self.end_headers()
            self.wfile.write(f'{{"access_token":"{TOKEN}","expires_in":3599}}'.encode())

        def log_message(self, *words) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host.environment["GCE_METADATA_HOST"] = f"127.0.0.1:{server.server_port}"
    try:
        assert pulled(host, registry, "", "echo ran") == 0, host.log
    finally:
        server.shutdown()
        server.server_close()
    assert "login --username oauth2accesstoken --password-stdin" in host.calls
    assert holding(host.folder, TOKEN) == [] and not left(host).exists()
    daemon.call("rmi", "-f", registry[1])
