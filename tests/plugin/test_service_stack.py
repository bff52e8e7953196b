"""A service with a token as docs/how-to/workloads.md has it: what the stack shows is enough to find
the token and to call with it.
"""

import json
import subprocess


def test_the_token_and_the_line_that_tries_it_are_outputs(project) -> None:
    """The token alone is an output of its own, hidden until asked for; the line that tries the
    service takes it from there and runs as it stands.
    """
    made = project("serve-llama-70b")
    made.edit(
        "gpu: ['H100:4', 'A100-80GB:4', 'H200:2', 'L40S:8']",
        "gpu: A100-80GB:4\n      providers: [gcp]",
    )
    said = made.up()
    token = made.run("stack", "output", "llama_token", "-s", made.stack, "--show-secrets").strip()
    assert token.startswith("gpus-") and " " not in token
    assert token not in said and token not in made.run("stack", "output", "-s", made.stack)
    line = json.loads(made.run("stack", "output", "llama", "-s", made.stack, "--json"))["try"]
    assert (
        line.endswith("; a rehearsal: nothing listens there")
        and '"' not in line
        and "TOKEN" not in line
    )
    safe = f"encrypted: gpus ssh llama -s {made.stack} -L 8000, then localhost:8000"
    assert f"/v1/models # the token travels in clear; {safe}; a rehearsal" in line
    said = subprocess.run(
        ["bash", "-c", f'curl() {{ echo "$@"; }}; {line}'],
        env=made.env,
        cwd=made.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert said.startswith(f"--oauth2-bearer {token} http")
    made.destroy()
    assert made.machines() == []


def test_at_modal_the_line_asks_for_what_its_own_door_wants(project) -> None:
    """The cheapest place of the stack as it is shipped: TLS, a proxy token of the workspace, and no
    token of ours.
    """
    made = project("serve-llama-70b")
    made.up()
    assert (
        made.run("stack", "output", "llama_token", "-s", made.stack, "--show-secrets").strip() == ""
    )
    shown = json.loads(made.run("stack", "output", "llama", "-s", made.stack, "--json"))
    assert shown["where"] == "modal any region" and shown["try"].startswith(
        "curl -H Modal-Key:KEY -H Modal-Secret:SECRET https://"
    )
    assert "in clear" not in shown["try"]
    made.destroy()
    assert made.machines() == []
